"""drain-slurm: DRAIN with our reason on every Slurm node of the machine, one literal name per request."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Yield
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import is_our_drain, somebody_elses, still_drained
from remediator.workflow.step import Writing
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import quoted

FORGET_S = 5.0  # how long slurmctld may forget what it acknowledged, when it is killed
SEEN, THEIRS = "seen_at", "theirs"


class DrainSlurm(Writing):
    """No new job may start there; running jobs go on. The engine looks again whenever a DRAIN vanishes."""

    name = "drain-slurm"
    then = "fence-node"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done once every Slurm node has DRAIN and our reason; Hold on somebody else's.

        A DRAIN that was there and is gone was either forgotten by slurmctld or lifted by a person.
        """
        if not context.incident.slurm_nodes:
            return Done("no Slurm worker on this node: nothing to drain")
        nodes = [context.slurm.node(name) for name in context.incident.slurm_nodes]
        theirs = {node.name: node.reason for node in nodes if somebody_elses(node, context.incident)}
        if SEEN in context.row.facts:
            return self._again(context, nodes, theirs)
        if theirs:
            return Hold(f"{_quoted(theirs)}: held, nothing is overwritten", facts={THEIRS: theirs})
        if context.row.facts.get(THEIRS):
            were = _quoted(context.row.facts[THEIRS])
            return Yield(f"{were}, and somebody has resumed it: it is not drained again", "slurm")
        drained = all(is_our_drain(node, context.incident) for node in nodes)
        return self._done(context) if drained else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which nodes, and the reason they get."""
        return f"set DRAIN on {', '.join(incident.slurm_nodes)}, reason {incident.drain_reason!r}"

    def act(self, context: Context) -> Outcome | None:
        """One DRAIN per node; the check right before has read their owners, and repeating a DRAIN is none."""
        for name in context.incident.slurm_nodes:
            context.slurm.drain(name, context.incident.drain_reason)
        return None

    def _done(self, context: Context) -> Done:
        facts = {SEEN: context.now, "ctld_started": context.slurm.config().started_at}
        return Done(f"Slurm drains {', '.join(context.incident.slurm_nodes)}", facts)

    def foresee(self, context: Context) -> Outcome:
        """Blocked by somebody else's reason as ever."""
        return self.check(context) or super().foresee(context)

    def _again(self, context: Context, nodes: Sequence[SlurmNode], theirs: dict[str, str]) -> Outcome | None:
        """The DRAIN was seen before. What stands stays as it is, also under a reason of the system."""
        if theirs:
            return Yield(_quoted(theirs), "slurm")
        missing = [n.name for n in nodes if not still_drained(n.is_drain, n.reason, context.incident.id)]
        if not missing:
            return self._done(context)
        if self._forgotten(context):
            return None
        return Yield(f"somebody resumed {', '.join(missing)}", "slurm")

    def _forgotten(self, context: Context) -> bool:
        facts = context.row.facts
        before, now = facts["ctld_started"], context.slurm.config().started_at
        if before is None or now is None:
            return bool(context.now - facts[SEEN] <= FORGET_S)
        return bool(before != now)


def _quoted(theirs: dict[str, str]) -> str:
    return ", ".join(f"{name} has somebody else's reason {quoted(reason)}" for name, reason in theirs.items())
