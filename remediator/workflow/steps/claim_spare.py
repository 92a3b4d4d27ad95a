"""claim-spare: one spare for this incident alone. The row in the store is the claim; people see a note."""

from __future__ import annotations

from remediator.actuators.ports import Unfit
from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Wait
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.workflow.conditions import demand_slurm
from remediator.workflow.context import Context
from remediator.workflow.step import Writing, would
from remediator.workflow.veto import demand_no_veto


class ClaimSpare(Writing):
    """Offers come from the pool's driver; the core takes the first that nobody has."""

    name = "claim-spare"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the spare is ours and says so; Wait with offers for the core to take one.

        A veto on the sick node forbids replacing it: no spare is kept from others meanwhile.
        """
        if context.spare is not None:
            return self._noted(context)
        demand_no_veto(context)
        node = context.nodes.node(context.incident.node)
        offers = context.spares.offers(
            context.conduct.pools.get(context.incident.pool, {}), node.labels if node else {}
        )
        free = [spare for spare in offers.usable if spare.uid not in context.taken_spares]
        if not free:
            taken = [f"{s.name} {context.taken_spares[s.uid]}" for s in offers.usable]
            return self._none(context, "; ".join([*taken, *offers.refused]) or "the pool has no spare")
        facts = {"offers": [[spare.name, spare.uid] for spare in free]}
        return Wait(f"spares offered: {len(free)}", after=0.0, facts=facts)

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """For which incident; the record of the claim names the spare."""
        return f"note on the claimed spare that it is for incident {incident.id}"

    def act(self, context: Context) -> Outcome | None:
        """The note; a spare that turned out unfit is let go, and the next one is taken."""
        spare = context.the_spare
        try:
            context.spares.claim(spare)
        except Unfit as error:
            why = f"{spare.node} cannot be taken: {error}"
            return Wait(why, after=0.0, facts={"refuse": spare.uid})
        return None

    def foresee(self, context: Context) -> Outcome:
        """Which spare it would be; none is taken."""
        seen = self.check(context)
        if isinstance(seen, Wait) and "offers" in seen.facts:
            return Done(f"would claim {seen.facts['offers'][0][0]} for incident {context.incident.id}")
        return would(seen) if seen is not None else super().foresee(context)

    def _noted(self, context: Context) -> Outcome | None:
        spare = context.the_spare
        if context.spares.is_claimed(spare):
            return Done(f"spare {spare.node} is claimed", {"spare": spare.node})
        if is_gone(context, spare):
            return Wait(f"{spare.node} is gone", after=0.0, facts={"refuse": spare.uid})
        demand_slurm(context)
        return None

    def _none(self, context: Context, why: str) -> Outcome:
        match context.conduct.when_no_spare(context.incident.pool):
            case "go-on":
                return Done(f"no spare ({why}): the jobs move, the node is not replaced", {"spare": None})
            case "wait":
                return Wait(f"waits for a spare: {why}", after=10.0, patient=True)
            case _:
                return Hold(f"no spare: {why}", after=10.0)


def is_gone(context: Context, spare: Spare) -> bool:
    """The machine left the cluster: nothing of ours is left to undo."""
    node = context.nodes.node(spare.node)
    return node is None or node.uid != spare.uid


def take_another(spare: Spare, why: str, *, retired: str = "") -> Wait:
    """The answer of a step whose spare will not do: it is not taken again, and the claim is redone."""
    facts = {"refuse": spare.uid, "again": ["claim-spare", "validate-spare"]}
    return Wait(why, after=0.0, facts=facts | ({"retired": retired} if retired else {}))
