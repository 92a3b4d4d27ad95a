"""force-down: DOWN ends what would not end. Only when every remaining run had its whole grace."""

from __future__ import annotations

from remediator.errors import Blocked
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.conditions import lost_condition
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on, may_be_forced
from remediator.workflow.step import Writing
from remediator.workflow.veto import demand_no_veto
from slurm_bridge.model import SlurmJob, SlurmNode


class ForceDown(Writing):
    """Everything is read again: jobs, opt-outs and vetoes."""

    name = "force-down"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when nothing is left; Blocked when something there may not be forced."""
        left = jobs_on(context)
        busy = self._busy(context, left)
        if not busy:
            return Done("nothing to force")
        if all(node.is_down for node in busy):
            return Done(f"{', '.join(node.name for node in busy)} is DOWN")
        if not may_be_forced(context, left):
            names = ", ".join(f"job {job.address}" for job in left)
            raise Blocked(f"{names} may not be ended by force")
        demand_no_veto(context)
        return lost_condition(context, context.incident.slurm_nodes)

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which nodes."""
        return f"set {', '.join(incident.slurm_nodes)} DOWN, ending what would not end"

    def act(self, context: Context) -> Outcome | None:
        """DOWN on each literal node that still has something."""
        for node in self._busy(context, jobs_on(context)):
            if not node.is_down:
                context.slurm.set_down(node.name, context.incident.drain_reason)
        return None

    def _busy(self, context: Context, left: list[SlurmJob]) -> list[SlurmNode]:
        """The machine's Slurm nodes that something is left on."""
        held = {name for job in left for name in job.nodes}
        nodes = [context.slurm.node(name) for name in context.incident.slurm_nodes]
        return [node for node in nodes if node.is_busy or node.name in held]
