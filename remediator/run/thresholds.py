"""Asks Prometheus again before a threshold counts: the core never waits for that, the answer is a signal."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import RemediatorError, Retry
from remediator.incidents.correlate import of_another
from remediator.model.faults import ALERTS, ASKED_AGAIN, COUNTED, SOFT
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.run.looks import Submit
from remediator.signals.answers import AGAIN_S, to_signal
from remediator.signals.inquiry import Ask, Inquiry
from remediator.signals.samples import Answer, unknown

EVERY_S = 15.0
LOOK_S = 20.0  # for one look: what is left is asked first in the next one
SETTLE_S = 60.0  # for which a soft fault must hold: where the cooling fails, other nodes follow
FORGET_S = 900.0  # after nobody has told of it: the backfill tells every minute of what still fires
MOST = 5_000
log = logger(stage="thresholds")


class Hosts(Protocol):
    """What the caches know of machines."""

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name, or None."""


@dataclass
class _Pending:
    """An alert's episode that wants an answer; times are the steady clock's."""

    alert: Signal
    told_at: float
    due_at: float = -math.inf
    held_since: float | None = None
    fenced: bool = False

    def settles(self, answer: Answer, now: float) -> bool:
        """Whether it holds, and has yet to be asked once more before it is told."""
        if answer.outcome != "holds":
            self.held_since = None
            return False
        if self.held_since is None:
            self.held_since = now
        return self.alert.kind in SOFT and now - self.held_since < SETTLE_S


class Thresholds:
    """Stands between the doors for alerts and the intake; `ask` is None where there is no Prometheus."""

    def __init__(self, ask: Ask | None, hosts: Hosts, submit: Submit, metrics: Metrics, clock: Clock) -> None:
        self._ask = ask
        self._hosts = hosts
        self._submit = submit
        self._metrics = metrics
        self._clock = clock
        self._pending: dict[str, _Pending] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def submit(self, signals: Sequence[Signal]) -> None:
        """Hand over to the intake, and note which alerts have to be asked about."""
        self._submit(signals)
        self.stored(signals)

    def stored(self, signals: Sequence[Signal]) -> None:
        """Note which of these, that the intake has taken, have to be asked about."""
        found = [one for one in signals if one.kind in ASKED_AGAIN and one.source in ALERTS]
        if found and self._note(found):
            self._wake.set()

    def run(self) -> None:
        """Look until stopped: at once when a new alert comes."""
        while not self._stopping.is_set():
            self._wake.wait(EVERY_S)
            self._wake.clear()
            if not self._stopping.is_set():
                self.look()

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()
        self._wake.set()

    def look(self) -> None:
        """Ask about every episode that is due; what cannot be stored is asked for again."""
        now, until = self._clock.now(), self._clock.steady() + LOOK_S
        inquiry, silent = Inquiry(self._ask or _nobody, now), self._ask is None
        answers: list[tuple[_Pending, Answer]] = []
        found: list[Signal] = []
        for pending in self._due():
            if self._clock.steady() > until:
                break
            machine = self._hosts.machine(pending.alert.node)
            if machine is None or machine.pool is None:
                continue
            pending.fenced = machine.fenced_by is not None
            answer = unknown("no-prometheus" if self._ask is None else "no-answer")
            if of_another(pending.alert, machine):
                answer = unknown("another")
            elif not silent:
                answer, silent = self._answer(inquiry, pending.alert, machine)
            if pending.settles(answer, self._clock.steady()):
                continue
            answers.append((pending, answer))
            found.append(to_signal(pending.alert, machine.boot_id, answer, inquiry.asked, now))
        try:
            self._submit(found)
        except RemediatorError as error:
            log.warning("answers not stored, asked for again", problem=str(error))
            return
        for pending, answer in answers:
            self._settle(pending, answer)

    def _answer(self, inquiry: Inquiry, alert: Signal, machine: Machine) -> tuple[Answer, bool]:
        """What Prometheus says, and whether it is silent."""
        labels = alert.detail.get("labels")
        texts = labels if isinstance(labels, dict) else {}
        try:
            if alert.kind in COUNTED:
                witness = str(alert.detail.get("witness", ""))
                return inquiry.recount(alert.kind, witness, texts, machine), False
            return inquiry.answer(alert.kind, texts, machine.created), False
        except Retry as error:
            log.warning("thresholds cannot be asked for", problem=str(error))
            return unknown("no-answer"), True

    def _note(self, found: Sequence[Signal]) -> bool:
        """Whether one of them is new."""
        now, new = self._clock.steady(), False
        with self._lock:
            for alert in found:
                known = self._pending.get(alert.dedupe)
                if known is not None:
                    known.told_at = now
                elif len(self._pending) < MOST:
                    self._pending[alert.dedupe] = _Pending(alert, now)
                    new = True
        return new

    def _due(self) -> list[_Pending]:
        """The longest due first; forgets what nobody tells of any more."""
        now = self._clock.steady()
        with self._lock:
            self._pending = {k: one for k, one in self._pending.items() if now - one.told_at <= FORGET_S}
            return sorted(
                (one for one in self._pending.values() if one.due_at <= now), key=lambda one: one.due_at
            )

    def _settle(self, pending: _Pending, answer: Answer) -> None:
        self._metrics.threshold_asked(answer.outcome, answer.reason)
        self._metrics.implausible(answer.implausible)
        with self._lock:
            if answer.outcome == "passed":
                self._pending.pop(pending.alert.dedupe, None)
            is_known = answer.outcome == "holds" or pending.fenced
            pending.due_at = self._clock.steady() + (AGAIN_S if is_known else 0.0)


def _nobody(_query: str, _at: float) -> object:
    raise Retry("there is no Prometheus to ask")
