"""`remediator return NODE`: may this machine be given back, and the plan that does it."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.errors import BadInput
from remediator.model.ids import incident_id
from remediator.model.incident import GIVE_BACK, Incident
from remediator.model.machine import Machine
from remediator.policy.rules import Rules
from remediator.run.openings import Inventory
from remediator.store import commands, incidents, signals
from remediator.store.commands import AS_SPARE, EVEN_SO, Command
from remediator.workflow.engine import Engine
from remediator.workflow.givenback import AS_A_SPARE, TAKEN_OUT_BY
from remediator.workflow.journal import Journal


class GiveBack:
    """Refuses in a sentence, or opens a return: an incident of its own with the plan give-back."""

    def __init__(self, inventory: Inventory, rules: Rules, engine: Engine, journal: Journal) -> None:
        self._inventory = inventory
        self._rules = rules
        self._engine = engine
        self._journal = journal

    def begin(self, connection: sa.Connection, asked: Command, now: float) -> str:
        """Start the return of a node, in the transaction that answers the command; BadInput says why not."""
        name, _, said = asked.argument.partition(" ")
        words = frozenset(said.split())
        if self._engine.dry_run:
            raise BadInput("node", "dry_run is on: nothing is written, so nothing can be returned")
        machine = self._known(name)
        self._refuse_open(connection, machine, now)
        before = _taken_out_by(connection, machine)
        if AS_SPARE in words:
            _refuse_worker(machine, before)
        if EVEN_SO not in words:
            self._refuse_evidence(connection, machine)
        returning = _return_of(machine, before, asked.actor, now)
        incidents.insert(connection, returning)
        detail = {"plan": GIVE_BACK, TAKEN_OUT_BY: before.id, EVEN_SO: EVEN_SO in words}
        self._journal.record(connection, "decision", returning, now, why=returning.sentence, detail=detail)
        facts = {TAKEN_OUT_BY: before.id, AS_A_SPARE: AS_SPARE in words}
        self._engine.start(connection, returning, now, facts)
        paused = commands.paused_by(connection)
        when = f" once {paused} or somebody else says `remediator resume`" if paused else ""
        return f"{name} is being returned{when}; follow it with `remediator incidents show {returning.id}`"

    def _known(self, name: str) -> Machine:
        machine = self._inventory.machine(name)
        if machine is None:
            raise BadInput("node", f"there is no node {name!r}; see `kubectl get nodes`")
        if machine.pool is None:
            raise BadInput("node", f"{name} is in no pool: it is never written")
        return machine

    def _refuse_open(self, connection: sa.Connection, machine: Machine, now: float) -> None:
        present = incidents.open_for(connection, machine.key)
        if present is not None and present.dry_run:
            self._engine.end_dry_run(connection, present, now)
            present = None
        if present is None:
            return
        see = f"see `remediator incidents show {present.id}`"
        if present.plan == GIVE_BACK:
            raise BadInput("node", f"{machine.name} is being returned already; {see}")
        raise BadInput(
            "node",
            f"incident {present.id} ({present.cause}) is {present.state} on {machine.name}: "
            f"a node is returned after its incident has closed; {see}",
        )

    def _refuse_evidence(self, connection: sa.Connection, machine: Machine) -> None:
        """Evidence of a final fault is valid for its boot: what has not been rebooted has not been mended."""
        if not machine.boot_id:
            raise BadInput("node", f"the boot of {machine.name} is not known, so its faults may still stand")
        for signal in signals.of_boot(connection, machine.name, machine.boot_id):
            found = self._rules.find(signal, machine)
            if found is not None and found[1].tier == "T0" and found[1].plan != "record":
                raise BadInput(
                    "node",
                    f"{found[1].cause} was seen on {machine.name} in its present boot: "
                    f"mend and reboot it first, or add --even-so",
                )


def _refuse_worker(machine: Machine, before: Incident) -> None:
    if machine.slurm_nodes or before.plan != "replace":
        raise BadInput("node", f"{machine.name} is still a worker node: only a replaced one becomes a spare")


def _taken_out_by(connection: sa.Connection, machine: Machine) -> Incident:
    """The closed incident whose fence the machine bears, else its last one."""
    name, fenced_by = machine.name, machine.fenced_by
    if fenced_by is None:
        last = incidents.last_closed(connection, machine.key)
        if last is None:
            raise BadInput("node", f"no incident ever took {name} out of service: there is nothing to return")
        back = incidents.last_return(connection, machine.key)
        if back is not None and back.opened_at > (last.closed_at or 0.0):
            raise BadInput("node", f"{name} was returned by {back.id}: there is nothing left to return")
        return last
    fence = incidents.get(connection, fenced_by)
    if fence is None or fence.key != machine.key:
        raise BadInput(
            "node", f"{name} bears the fence of incident {fenced_by}, which is not on record for this machine"
        )
    return fence


def _return_of(machine: Machine, before: Incident, actor: str, now: float) -> Incident:
    return Incident(
        id=incident_id(now),
        key=machine.key,
        node=machine.name,
        node_uid=machine.uid,
        boot_id=machine.boot_id,
        slurm_nodes=tuple(sorted({*before.slurm_nodes, *machine.slurm_nodes})),
        pool=machine.pool or "",
        tier=before.tier,
        rule=GIVE_BACK,
        cause=f"return after {before.cause}",
        plan=GIVE_BACK,
        sentence=f"{actor} asked to return {machine.name}: acceptance test, then what incident {before.id} "
        f"set there is taken back",
        fault_at=now,
        opened_at=now,
    )
