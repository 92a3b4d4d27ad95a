"""One attempt at one step, in a worker: errors become outcomes, nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable

from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, Overridden, Retry
from remediator.model.plan import Again, Hold, Outcome, Unknown, Yield
from remediator.workflow.context import Context
from remediator.workflow.step import Step, Writing

Probe = Callable[[str], None]


def attempt(step: Step, context: Context, *, may_act: bool, probe: Probe) -> Outcome | None:
    """Check, and when an INTENT allows it act and verify; None means that an INTENT is needed. In a dry run
    the step only says what it would do.

    `probe` is told the two moments a crash matters most: `<step>:intent` and `<step>:accepted`.
    """
    try:
        if context.incident.dry_run:
            return step.foresee(context)
        return _attempt(step, context, may_act, probe)
    except Retry as error:
        return Again(str(error), after=error.after)
    except Ambiguous as error:
        return Unknown(str(error))
    except Overridden as error:
        return Yield(str(error), error.side)
    except (Blocked, GiveUp, BadInput) as error:
        return Hold(str(error))


def _attempt(step: Step, context: Context, may_act: bool, probe: Probe) -> Outcome | None:
    if not (may_act and isinstance(step, Writing)):
        return step.check(context)
    seen = None if step.judges else step.check(context)
    if seen is not None:
        return seen
    probe(f"{step.name}:intent")
    ended = step.act(context)
    probe(f"{step.name}:accepted")
    return ended or step.verify(context)
