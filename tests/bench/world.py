"""A core on a store of its own over 5,000 nodes, and signals for it."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from remediator.clock import SystemClock
from remediator.incidents.companions import COMPANIONS_S
from remediator.kube.nodes import parse_node
from remediator.kube.pods import parse_pod
from remediator.model.signal import Signal
from remediator.policy import rules
from remediator.run.core import Core
from remediator.run.garbage import Garbage
from remediator.run.inventory import CachedInventory
from remediator.run.triage import Triage
from remediator.settings import Budgets, Pool
from remediator.signals.intake import Intake
from remediator.store import leadership
from remediator.store.engine import open_store
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger
from tests.bench.cluster import boot_id, raw_node, raw_pod

NODES = 5000
OPEN = 500
BATCH = 500
WAITS, WAITING = 2, 0.01
"""For its companions, then for a second witness; and the part of a stream that may wait for longer."""
RECORDED, LATER, ACTED = 43, 48, 79
UNLIMITED = Budgets(enabled=False)
POOLS = {"training": Pool(node_selector={"pool": "training"}, stage="full")}


class World:
    """A core over 5,000 nodes; the first `opened` have an open incident whose call never comes back. `now`
    goes on only when told.
    """

    def __init__(self, path: Path, opened: int, budgets: Budgets = UNLIMITED) -> None:
        self._store = open_store(f"sqlite:///{path}")
        self._now = time.time()
        with self._store.write() as connection:
            epoch = leadership.acquire(connection, "bench", 3600.0, sole=True)
        journal = Journal("bench", epoch or 0)
        inventory = _inventory()
        ledger = Ledger(budgets, inventory.pool_size, journal, inventory.share_size)
        engine = Engine(journal, "bench", ledger)
        triage = Triage(inventory, rules.load(), ledger, engine, journal)
        self._core = Core(self._store, engine, triage, journal)
        self._door = Intake(self._store, lambda _rows, _seconds: None, SystemClock())
        self._door.start()
        self._counts = itertools.count()
        self._core.turn(self._now)
        for _ in range(0, opened, BATCH):
            self._receive(ACTED, range(OPEN))
            self._settle()
        Garbage(SystemClock()).settle()  # as the controller does once it has started

    def decide(self, code: int) -> float:
        """Signals per second of one turn over a full batch about the first 500 nodes."""
        self._receive(code, range(OPEN))
        took = self._turn(judged=BATCH)
        return BATCH / took

    def flow(self, code: int, nodes: range, each: int = 1, *, waits: bool = False) -> float:
        """Signals per second through the intake and a turn, `each` of one node after the other; those that
        wait for companions take two turns.
        """
        began = time.perf_counter()
        self._receive(code, nodes, each)
        took = time.perf_counter() - began + self._turn(judged=0 if waits else BATCH)
        if waits:
            self._now += COMPANIONS_S + 1.0
            took += self._turn(judged=BATCH)
        return BATCH / took

    def play(self, found: Sequence[Signal]) -> float:
        """Judged signals per second of a stream that comes in full batches; of the few that still wait when
        their companions have come, each would make an incident graver that waits for a budget itself.
        """
        news = [one.model_copy(update={"seen_at": self._now, "received_at": self._now}) for one in found]
        began, told = time.perf_counter(), 0
        for at in range(0, len(news), BATCH):
            self._door.submit(news[at : at + BATCH])
            told += self._settle()
        for _ in range(WAITS):
            self._now += COMPANIONS_S + 1.0
            told += self._settle()
        took = time.perf_counter() - began
        if told < (1 - WAITING) * len(news):
            raise AssertionError(f"{len(news) - told} of {len(news)} signals were not judged")
        return told / took

    def idle_turn(self) -> float:
        """Seconds of a turn without news."""
        return self._turn(judged=0)

    def close(self) -> None:
        """Let go of the file."""
        self._door.stop()
        self._store.close()
        gc.unfreeze()

    def _turn(self, judged: int) -> float:
        began = time.perf_counter()
        told = self._settle()
        took = time.perf_counter() - began
        if told != judged:
            raise AssertionError(f"{told} of {judged} signals were judged")
        return took

    def _settle(self) -> int:
        """Turns until none wants to come at once; how many signals were judged."""
        told, again = 0, True
        while again:
            turn = self._core.turn(self._now)
            told, again = told + len(turn.sentences), turn.wake_at <= self._now
        return told

    def _receive(self, code: int, nodes: range, each: int = 1) -> None:
        numbers = itertools.islice(self._counts, BATCH)
        self._door.submit([signal_of(nodes[n // each % len(nodes)], code, n, self._now) for n in numbers])


def signal_of(node: int, code: int, number: int, now: float) -> Signal:
    """The kernel line number `number`, about one GPU of a node."""
    name = f"gpu-{node}"
    return Signal(
        source="agent",
        node=name,
        boot_id=boot_id(name),
        kind="xid",
        code=code,
        pci="0000:18:00",
        seen_at=now,
        received_at=now,
        dedupe=f"agent:{name}:{code}:{number}",
        detail={"pid": None, "process": None, "extra": {}, "raw": 100 * "x"},
    )


def _inventory() -> CachedInventory:
    """Watches that are in step, one Slurm worker on each node."""
    nodes = tuple(node for number in range(NODES) if (node := parse_node(raw_node(number))))
    pods = tuple(pod for number in range(NODES) if (pod := parse_pod(raw_pod(number))))
    by_name = {node.name: node for node in nodes}
    return CachedInventory(by_name.get, lambda: nodes, lambda: pods, POOLS)
