"""What the core hands to a worker, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from remediator.model.checkpoint import NOTHING_KNOWN, Saved
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, StepRow
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.store.steps import Place
from remediator.workflow.context import GoOn, stay
from remediator.workflow.judged import Early, Nodes
from remediator.workflow.step import Hurried
from remediator.workflow.steps import STEPS


@dataclass(frozen=True)
class Call:
    """Work for a worker: one attempt at one step, and at `then`, which is taken straight on by `go_on` once
    the first one's write is accepted. What it looks at first may have been asked for `early`.
    """

    incident: Incident
    row: StepRow
    may_act: bool
    run: JobRun | None
    runs: tuple[JobRun, ...]
    spare: Spare | None
    taken_spares: dict[str, str] = field(default_factory=dict)
    then: Call | None = None
    go_on: GoOn = field(default=stay, compare=False)
    straight_on: bool = False
    early: Early | None = field(default=None, compare=False)
    saved: Saved = NOTHING_KNOWN
    stopped_at: float | None = None

    @property
    def place(self) -> Place:
        """Which step this is about."""
        return place_of(self.row)

    @property
    def places(self) -> frozenset[Place]:
        """All the steps that the worker has in its hands."""
        return frozenset({self.place}) | (self.then.places if self.then else frozenset())


@dataclass(frozen=True)
class Answer:
    """What a worker found. An outcome of None: the step wants to act and needs an INTENT, or, if it had one,
    its turn never came.
    """

    call: Call
    outcome: Outcome | None


def place_of(row: StepRow) -> Place:
    """A step's identity."""
    return (row.incident, row.name, row.subject)


def asked_early(call: Call, ask: Callable[[Hurried], Future[Nodes]], now: float) -> Call:
    """The call; if it is in a hurry, with what its step looks at first, asked for from `now` on. Its INTENT
    is still being committed, so `ask` only reads.
    """
    step = STEPS[call.row.name]
    if call.then is None or not isinstance(step, Hurried):
        return call
    return replace(call, early=Early(ask(step), now))


def answers(call: Call, attempt: Callable[[Call], Outcome | None]) -> list[Answer]:
    """Attempt the call and what goes with it: that begins once the first one's write is accepted, or is seen
    to be done already. Told together, so that the core does not compute meanwhile.
    """
    then = call.then
    if then is None:
        return [Answer(call, attempt(call))]
    taken: list[Outcome | None] = []
    go_on = partial(lambda then: taken.append(attempt(then)), replace(then, straight_on=True))
    outcome = attempt(replace(call, go_on=go_on))
    if isinstance(outcome, Done) and not taken:
        go_on()
    return [Answer(call, outcome), Answer(then, taken[0] if taken else None)]
