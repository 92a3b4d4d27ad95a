"""A core on a real store with machines that the test makes up; nobody works on what it hands out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from remediator.audit import chain
from remediator.clock import ManualClock
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.plan import StepRow
from remediator.model.signal import Signal
from remediator.policy import rules
from remediator.run.core import Core, NewRules, Turn
from remediator.run.triage import Triage
from remediator.settings import Budgets
from remediator.settings.tree import KnownBad
from remediator.store import incidents, leadership, schema, signals, steps
from remediator.store.engine import Store, open_store
from remediator.workflow.calls import Answer, Call
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger

TWO_AT_ONCE = Budgets(drain_t0=KnownBad(percent=0))
NO_BUDGET = Budgets(enabled=False)


class Deciding:
    """Machines by name, a store, and one core in epoch 1."""

    def __init__(
        self,
        folder: Path,
        budgets: Budgets = NO_BUDGET,
        policy: rules.Rules | None = None,
        site: NewRules | None = None,
    ) -> None:
        self.policy, self.site_policy = policy or rules.load(), site
        self.clock = ManualClock()
        self.store: Store = open_store(f"sqlite:///{folder}/s.db")
        self.machines: dict[str, Machine] = {}
        self.budgets = budgets
        for number in range(4):
            self.add(f"gpu-{number}")
        with self.store.write() as connection:
            leadership.acquire(connection, "me", 10.0, sole=True)
        self.asked_early: list[Call] = []
        self.core = self.life(1)

    def ask_early(self, call: Call) -> Call:
        """What a worker may begin to read for, before the INTENT is committed."""
        self.asked_early.append(call)
        return call

    def life(self, epoch: int) -> Core:
        """A core that believes to lead in `epoch`."""
        journal = Journal("me", epoch)
        ledger = Ledger(self.budgets, self.pool_size, journal)
        engine = Engine(journal, "test", ledger)
        triage = Triage(self, self.policy, ledger, engine, journal)
        return Core(self.store, engine, triage, journal, site=self.site_policy, ask_early=self.ask_early)

    def machine(self, name: str) -> Machine | None:
        """The Inventory of this world."""
        return self.machines.get(name)

    def pool_size(self, _pool: str) -> int:
        """How many nodes are in any pool."""
        return len(self.machines)

    def add(self, name: str, **changes: Any) -> None:
        """A machine, or changes to one that is there."""
        base: dict[str, Any] = {
            "name": name, "uid": f"uid-{name}", "boot_id": f"boot-{name}", "pool": "training",
            "stage": "full", "pool_size": 4, "slurm_nodes": (f"w-{name}",),
        }  # fmt: skip
        known = self.machines[name].model_dump() if name in self.machines else base
        self.machines[name] = Machine(**(known | changes))

    def signal(
        self, node: str, code: int | None = 79, *, kind: str = "xid", boot: str | None = None, times: int = 1
    ) -> None:
        """Signals of `node`'s present (or the given) boot are committed."""
        boot = boot if boot is not None else self.machines[node].boot_id
        with self.store.write() as connection:
            count = connection.execute(sa.select(sa.func.count()).select_from(schema.signal)).scalar_one()
            new = Signal(
                source="agent", node=node, boot_id=boot, kind=kind, code=code, pci=None,
                seen_at=self.clock.now(), received_at=self.clock.now(), dedupe="",
            )  # fmt: skip
            rows = [new.model_copy(update={"dedupe": f"d{count + extra}"}) for extra in range(times)]
            signals.insert_new(connection, rows)

    def turn(self, answers: Sequence[Answer] = ()) -> Turn:
        """One turn now."""
        return self.core.turn(self.clock.now(), answers)

    def incidents(self) -> list[Incident]:
        """All incidents, oldest first."""
        with self.store.read() as connection:
            found = incidents.recent(connection)
        return sorted(found, key=lambda one: (one.opened_at, one.node, one.node_uid))

    def steps(self, incident: str) -> list[StepRow]:
        """The steps of an incident."""
        with self.store.read() as connection:
            return steps.of_incident(connection, incident)

    def close(self, incident: str) -> None:
        """The incident's work is done."""
        with self.store.write() as connection:
            incidents.update(connection, incident, state="closed", closed_at=self.clock.now())

    def verdicts(self) -> list[tuple[str | None, str | None]]:
        """What became of each signal: the sentence and the incident, None while nobody judged it."""
        with self.store.read() as connection:
            query = sa.select(schema.signal.c.verdict, schema.signal.c.incident).order_by(schema.signal.c.id)
            return [(row.verdict, row.incident) for row in connection.execute(query)]

    def actions(self) -> list[str]:
        """The audit record's actions, oldest first."""
        with self.store.read() as connection:
            return [record["action"] for record in chain.read(connection)]
