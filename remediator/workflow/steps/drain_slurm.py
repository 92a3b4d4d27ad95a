"""drain-slurm: DRAIN with our reason on every Slurm node of the machine, one literal name per request."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import check_owner, is_our_drain
from remediator.workflow.step import Writing

FORGET_S = 5.0  # how long slurmctld may forget what it acknowledged, when it is killed


class DrainSlurm(Writing):
    """No new job may start there; running jobs go on. The engine looks again whenever a DRAIN vanishes."""

    name = "drain-slurm"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done once every Slurm node has DRAIN and our reason; Blocked on somebody else's.

        A DRAIN that was there and is gone was either forgotten by slurmctld or lifted by a person.
        """
        missing = self._undrained(context)
        if missing:
            return self._vanished(context, missing) if context.row.facts else None
        names = ", ".join(context.incident.slurm_nodes)
        if not names:
            return Done("no Slurm worker on this node: nothing to drain")
        facts = {"seen_at": context.now, "ctld_started": context.slurm.config().started_at}
        return Done(f"Slurm drains {names}", facts)

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which nodes, and the reason they get."""
        return f"set DRAIN on {', '.join(incident.slurm_nodes)}, reason {incident.drain_reason!r}"

    def act(self, context: Context) -> Outcome | None:
        """One DRAIN per node; the check right before has read their owners, and repeating a DRAIN is none."""
        for name in context.incident.slurm_nodes:
            context.slurm.drain(name, context.incident.drain_reason)
        return None

    def _undrained(self, context: Context) -> list[str]:
        missing = []
        for name in context.incident.slurm_nodes:
            node = context.slurm.node(name)
            check_owner(node, context.incident)
            if not is_our_drain(node, context.incident):
                missing.append(name)
        return missing

    def _vanished(self, context: Context, missing: list[str]) -> Outcome | None:
        facts = context.row.facts
        before, now = facts["ctld_started"], context.slurm.config().started_at
        if before is None or now is None:
            forgotten = context.now - facts["seen_at"] <= FORGET_S
        else:
            forgotten = before != now
        if forgotten:
            return None
        return Hold(f"somebody resumed {', '.join(missing)}: nothing more is done there")
