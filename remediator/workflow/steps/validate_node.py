"""validate-node: the acceptance test of a suspect machine, idle and drained; it decides what follows."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome
from remediator.workflow.steps.trying import Trying


class ValidateNode(Trying):
    """The fact `fit` gives the machine back, `unfit` goes on to its replacement."""

    name = "validate-node"

    def passed(self, why: str) -> Done:
        """It is well: the crashes were the jobs' own."""
        return Done(why, {"fit": why})

    def failed(self, why: str, node: str) -> Outcome:
        """It is to be replaced."""
        return Done(why, {"unfit": why})
