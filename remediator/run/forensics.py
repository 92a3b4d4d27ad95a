"""Lays each crash over what its nodes' links and GPUs did, in a thread of its own: nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import BadInput, RemediatorError, Retry
from remediator.incidents.forensics import AFTER_S, BEFORE_S, Verdict, lay_over
from remediator.model.job_end import JobEnd
from remediator.model.signal import Signal
from remediator.model.track import Track
from remediator.observe.logs import logger
from remediator.policy.crashes import no_crash
from remediator.policy.rules import Rules
from remediator.run.looks import Submit
from remediator.signals.crash_readings import readings
from remediator.signals.forensics import forensic
from remediator.signals.inquiry import Ask
from remediator.signals.job_ends import JOB_ENDED

EVERY_S = 15.0
SETTLE_S = AFTER_S + 15.0  # after the end: until what moved before it is scraped
ONE_JOB_S = 60.0  # for all nodes of a job: a Prometheus that is slower than that is left alone
GIVE_UP_S = 600.0
TOGETHER = 8  # nodes in one query
MOST = 200  # crashes that wait; of a storm the rest says nothing more about one node
NO_PROMETHEUS = "unknown: no Prometheus (prometheus.url is not set)"
log = logger(stage="forensics")


class Hosts(Protocol):
    """What the caches know of the Slurm nodes on machines."""

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none."""


@dataclass(frozen=True, slots=True)
class _Crash:
    """A crash that wants an answer; on the steady clock. `nodes` as they were when it came."""

    end: JobEnd
    nodes: tuple[str, ...]
    due_at: float
    until: float


class Forensics:
    """Stands between the look at ended jobs and the intake; `ask` is None where there is no Prometheus."""

    def __init__(self, ask: Ask | None, hosts: Hosts, rules: Rules, submit: Submit, clock: Clock) -> None:
        self._ask = ask
        self._hosts = hosts
        self._rules = rules
        self._submit = submit
        self._clock = clock
        self._waiting: dict[str, _Crash] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def submit(self, signals: Sequence[Signal]) -> None:
        """Hand over to the intake, and note which crashes are to be looked into."""
        self._submit(signals)
        for signal in signals:
            if signal.kind == JOB_ENDED and not no_crash(signal, self._rules):
                self._note(JobEnd.model_validate(signal.detail))

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.wait(EVERY_S):
            self.look()

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()

    def look(self) -> None:
        """Answer every crash that is due; what cannot be asked or stored now is tried again."""
        for crash in self._due():
            verdict = self._verdict(crash)
            if verdict is None:
                return  # nobody answers: the others would not be answered either
            says, now = verdict.says, self._clock.now()
            found = forensic(crash.end, verdict.outcome, says, verdict.nodes, now, clear=verdict.clear)
            try:
                self._submit([found])
            except RemediatorError as error:
                log.warning("forensics not stored, asked for again", problem=str(error))
                return
            with self._lock:
                self._waiting.pop(crash.end.run.key, None)

    def _note(self, end: JobEnd) -> None:
        now, ago = self._clock.steady(), max(0.0, self._clock.now() - end.ended)
        # A worker that is on no node is a node of the job all the same: one that nobody reads.
        nodes = tuple(dict.fromkeys(self._hosts.node_of(worker) or worker for worker in end.run.nodes))
        with self._lock:
            if end.run.key not in self._waiting and len(self._waiting) < MOST:
                due_at = now + max(0.0, SETTLE_S - ago)
                self._waiting[end.run.key] = _Crash(end, nodes, due_at, due_at + GIVE_UP_S)

    def _due(self) -> list[_Crash]:
        now = self._clock.steady()
        with self._lock:
            found = [one for one in self._waiting.values() if self._ask is None or one.due_at <= now]
        return sorted(found, key=lambda one: one.due_at)

    def _verdict(self, crash: _Crash) -> Verdict | None:
        """None while Prometheus may still answer."""
        if self._ask is None:
            return Verdict("unknown", NO_PROMETHEUS)
        try:
            tracks = tracks_before(self._ask, crash.nodes, crash.end.ended, self._clock)
        except BadInput:
            return Verdict("unknown", "unknown: Prometheus' answer has another form")
        except Retry as error:
            log.warning("a crash cannot be laid over readings", problem=str(error))
            is_over = self._clock.steady() >= crash.until
            return Verdict("unknown", "unknown: Prometheus does not answer") if is_over else None
        if tracks is None:
            return Verdict("unknown", "unknown: Prometheus answers too slowly for so many nodes")
        return lay_over(crash.nodes, tracks, crash.end.ended, crash.end.began)


def tracks_before(ask: Ask, nodes: Sequence[str], ended: float, clock: Clock) -> list[Track] | None:
    """What is read of a job's nodes until its end; None when that takes too long. Retry and BadInput."""
    until = clock.steady() + ONE_JOB_S
    found: list[Track] = []
    for begin in range(0, len(nodes), TOGETHER):
        if clock.steady() > until:
            return None
        found += readings(ask, nodes[begin : begin + TOGETHER], ended + AFTER_S, BEFORE_S + AFTER_S)
    return found
