"""The only threads that call outside: one attempt each, an answer back, never a sleep."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from remediator.clock import Clock
from remediator.errors import Fenced
from remediator.model.plan import Hold, Outcome
from remediator.observe.logs import logger
from remediator.workflow.attempt import Probe, attempt
from remediator.workflow.calls import Answer, Call, answers, asked_early
from remediator.workflow.context import Context
from remediator.workflow.steps import STEPS

URGENT = frozenset({"admit", "drain-slurm", "fence-node"})
URGENT_WORKERS = 4
OTHER_WORKERS = 8

log = logger(stage="workers")
ContextOf = Callable[[Call, float], Context]


class Workers:
    """Two pools, so that no slow step stands before a drain or a fence."""

    def __init__(
        self,
        context_of: ContextOf,
        clock: Clock,
        answer: Callable[[Answer], None],
        fenced: Callable[[Fenced], None],
        probe: Probe,
    ) -> None:
        self._context_of = context_of
        self._clock = clock
        self._answer = answer
        self._fenced = fenced
        self._probe = probe
        self._urgent = ThreadPoolExecutor(URGENT_WORKERS, "urgent")
        self._other = ThreadPoolExecutor(OTHER_WORKERS, "worker")
        self._early = ThreadPoolExecutor(URGENT_WORKERS, "early")

    def ask_early(self, call: Call) -> Call:
        """The call; in a thread what a step in a hurry looks at first is asked for from now on."""
        now = self._clock.now()
        ask = self._early.submit
        return asked_early(call, lambda step: ask(lambda: step.look_early(self._context_of(call, now))), now)

    def submit(self, call: Call) -> None:
        """Hand out one call."""
        pool = self._urgent if call.row.name in URGENT else self._other
        pool.submit(self._run, call, self._clock.now() - self._clock.steady())

    def stop(self) -> None:
        """Take no more calls and wait for those under way (each has a deadline)."""
        self._early.shutdown(wait=True, cancel_futures=True)
        self._urgent.shutdown(wait=True, cancel_futures=True)
        self._other.shutdown(wait=True, cancel_futures=True)

    def _run(self, call: Call, ahead: float) -> None:
        try:
            for answer in answers(call, partial(self._attempt, ahead)):
                self._answer(answer)
        except Fenced as error:
            self._fenced(error)

    def _attempt(self, ahead: float, call: Call) -> Outcome | None:
        """`ahead`: of the steady clock, when the row was written; the clock may have been set since."""
        step = STEPS[call.row.name]
        try:
            context = self._context_of(call, ahead + self._clock.steady())
            return attempt(step, context, may_act=call.may_act, probe=self._probe)
        except Fenced:
            raise
        except Exception as error:
            log.exception("step failed", incident=call.incident.id, step=step.name)
            return Hold(f"internal error in {step.name}: {type(error).__name__}; see the log", after=30.0)
