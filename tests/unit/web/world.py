"""A reviewer and an intake that tests control, and bodies that agents send."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.checkpoint import CheckpointLook
from remediator.model.signal import Signal
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.web.auth import AgentAuth

ACCOUNT = "system:serviceaccount:remediator:remediator-agent"
BODY_CAP = 64 * 1024
BOOT = "5f0c3b1e-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Verdict:
    """What a TokenReview says."""

    authenticated: bool = True
    username: str = ACCOUNT
    node: str = "gpu-1"


@dataclass
class World:
    """The server's surroundings and what they saw."""

    clock: ManualClock = field(default_factory=ManualClock)
    metrics: Metrics = field(default_factory=Metrics)
    tokens: dict[str, Verdict] = field(default_factory=lambda: {"good": Verdict()})
    reviews: list[str] = field(default_factory=list)
    review_fails: bool = False
    taken: list[Signal] = field(default_factory=list)
    told: list[Signal] = field(default_factory=list)
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(100))
    beats: list[tuple[str, str, float]] = field(default_factory=list)
    looks: list[tuple[str, tuple[CheckpointLook, ...], float]] = field(default_factory=list)
    submit_error: Exception | None = None
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    commit: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.commit.set()
        self.health = Health(self.clock)
        self.auth = AgentAuth(self.review, ACCOUNT, self.clock)

    def review(self, token: str) -> Verdict:
        self.reviews.append(token)
        if self.review_fails:
            raise Retry("the API server does not answer")
        return self.tokens.get(token, Verdict(authenticated=False))

    def look(self, node: str, looks: Sequence[CheckpointLook], at: float) -> None:
        self.looks.append((node, tuple(looks), at))

    def hand_in(self, signals: Sequence[Signal]) -> Future[None]:
        self.entered.release()
        return self.pool.submit(self._committed, signals)

    def _committed(self, signals: Sequence[Signal]) -> None:
        assert self.commit.wait(30)
        if self.submit_error is not None:
            raise self.submit_error
        self.taken += signals

    def beat(self, node: str, boot_id: str, at: float) -> None:
        self.beats.append((node, boot_id, at))

    def counted(self, result: str) -> float | None:
        labels = {"source": "agent", "result": result}
        return self.metrics.registry.get_sample_value("remediator_signals_received_total", labels)


def event(seq: int = 1, **changes: Any) -> dict[str, Any]:
    kernel = {
        "kind": "xid",
        "xid": 79,
        "pci": "0000:08:00",
        "pid": 7,
        "process": "python",
        "raw": "NVRM: Xid",
        **changes,
    }
    return {"seq": seq, "seen_at": 1_800_000_000.0, "event": kernel}


def push(*events: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"version": 1, "node": "gpu-1", "boot_id": BOOT, "events": list(events), **changes}
