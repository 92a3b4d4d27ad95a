"""resume-slurm: RESUME where the drain is ours; seen at once, and seen again half a minute later."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.givenback import AS_A_SPARE, RESUMED, taken_out_by
from remediator.workflow.ownership import is_left_by_restart
from remediator.workflow.step import Writing
from slurm_bridge.model import SlurmNode

AGAIN_S = 30.0
PLACED_S = 60.0  # how long a worker that was waiting for a node may take to come onto this one


class ResumeSlurm(Writing):
    """slurmctld may forget a RESUME it acknowledged: hence the second look."""

    name = "resume-slurm"
    bound_s = 120.0

    def check(self, context: Context) -> Outcome | None:
        """None while a drain of ours stands; Done when it has been gone for 30 s, or there never was one."""
        here = self._here(context)
        late = self._not_placed(context)
        if late and context.now - (context.row.started_at or context.now) < PLACED_S:
            return Wait(f"worker {', '.join(late)} has no node yet", after=1.0)
        if any(self._is_ours(context, node) for node in here):
            return None
        resumed = context.row.acted_at
        if resumed is not None and context.now < resumed + AGAIN_S:
            return Wait(RESUMED, after=resumed + AGAIN_S - context.now)
        silent = [node.name for node in here if node.is_silent and not (node.is_drain or node.is_down)]
        if silent:
            return Wait(f"slurmd of {', '.join(silent)} does not answer", after=5.0)
        return Done("; ".join(map(_how_it_stands, here)) or "no Slurm worker runs there: nothing to resume")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which Slurm nodes."""
        return f"resume {', '.join(incident.slurm_nodes)} where the drain is ours"

    def act(self, context: Context) -> Outcome | None:
        """RESUME each literal node whose drain is ours, as just read."""
        for node in self._here(context):
            if self._is_ours(context, node):
                context.slurm.resume(node.name)
        return None

    def _not_placed(self, context: Context) -> list[str]:
        """Workers that were on this machine and are on none now: they may come back to it."""
        if context.row.facts.get(AS_A_SPARE):
            return []
        pods = {name: context.nodes.worker(name) for name in context.incident.slurm_nodes}
        return [name for name, pod in pods.items() if pod is None or not pod.node]

    def _here(self, context: Context) -> list[SlurmNode]:
        """The workers that run on this machine: one that moved keeps its name and is none of our business."""
        pods = {name: context.nodes.worker(name) for name in context.incident.slurm_nodes}
        here = [name for name, pod in pods.items() if pod is not None and pod.node == context.incident.node]
        return [context.slurm.node(name) for name in here]

    def _is_ours(self, context: Context, node: SlurmNode) -> bool:
        """Set by the incident that took it out, or left by its worker's restart, which wipes the reason."""
        ours = node.reason.startswith(taken_out_by(context).reason_prefix)
        return is_left_by_restart(node) or (ours and (node.is_drain or node.is_down))


def _how_it_stands(node: SlurmNode) -> str:
    if node.is_drain or node.is_down:
        return f"{node.name} stays out of service in Slurm: its reason {node.reason!r} is somebody else's"
    return f"{node.name} takes jobs"
