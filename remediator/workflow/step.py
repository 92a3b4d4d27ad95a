"""What a step is: it looks, and some steps also act and look again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Unknown, Wait
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.workflow.context import Context
from remediator.workflow.judged import Nodes

NOT_SEEN = Unknown("accepted, but not seen yet", after=0.2)


class Step(ABC):
    """A step that only looks. After `bound_s` seconds people are told; that never skips a check."""

    name: ClassVar[str]
    bound_s: ClassVar[float]

    @abstractmethod
    def check(self, context: Context) -> Outcome | None:
        """An outcome when there is nothing to do now; None, of a writing step, when `act` is needed."""

    def foresee(self, context: Context) -> Outcome:
        """What would come of it in a dry run: it looks, and what it would wait for counts as come."""
        return would(self.check(context) or Done(f"would go on with {self.name}"))


def would(outcome: Outcome) -> Outcome:
    """A wait in a dry run is over at once: nothing was done that could end it."""
    return Done(f"would wait: {outcome.sentence}") if isinstance(outcome, Wait) else outcome


class Local(Step):
    """A step that asks nobody outside: the core takes it in the very turn in which it becomes ready."""

    def check(self, context: Context) -> Outcome | None:
        """The same for whoever has a context."""
        return self.conclude(context.incident, context.spare, context.now)

    @abstractmethod
    def conclude(self, incident: Incident, spare: Spare | None, now: float) -> Done | Hold:
        """Done, or Hold with what a person has to change; never a wait, since nothing outside is asked."""


class Writing(Step):
    """A step that changes something outside, once an INTENT for it is committed.

    `judges`: `act` itself finds out what is there and writes only that very version.
    """

    judges: ClassVar[bool] = False

    @abstractmethod
    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """What `act` is about to do, for the record that is committed before it."""

    @abstractmethod
    def act(self, context: Context) -> Outcome | None:
        """The write. An outcome ends the attempt at once; None goes on to `verify`."""

    def foresee(self, context: Context) -> Outcome:
        """What it would do; its look presumes the acts before it, so it does not look."""
        run = context.run
        if run is not None and run.release == "tell-only":
            return Done(f"would leave job {run.address} alone ({run.why})")
        return Done(f"would {self.intention(context.incident, run)}")

    def verify(self, context: Context) -> Outcome:
        """Look again: an accepted write that cannot be seen is not done."""
        return self.check(context) or NOT_SEEN


class Hurried(Writing):
    """A writing step of which every millisecond counts. `then` names the step that goes straight after its
    write, before that is looked at again; one without a budget of its own.
    """

    then: ClassVar[str]

    @abstractmethod
    def look_early(self, context: Context) -> Nodes:
        """What `act` looks at first, read while its INTENT is being committed."""
