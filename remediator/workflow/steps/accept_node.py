"""accept-node: the acceptance test of a machine that is to be given back. Nothing is changed before it."""

from __future__ import annotations

from typing import ClassVar

from remediator.kube.acceptance import State
from remediator.model.plan import Done, Outcome, Wait
from remediator.workflow.steps.trying import Trying


class AcceptNode(Trying):
    """A machine that does not pass in time stays out of service."""

    name = "accept-node"
    # A device plugin needs its time after a reboot: until then no GPU is healthy.
    patience: ClassVar[dict[State, float]] = {"not-ready": 300.0, "failed": 60.0}

    def passed(self, why: str) -> Done:
        """The return goes on."""
        return Done(why)

    def failed(self, why: str, node: str) -> Outcome:
        """The fact `ends` ends the return."""
        said = f"not returned: {why}; {node} stays as it was"
        return Wait(said, facts={"ends": said})
