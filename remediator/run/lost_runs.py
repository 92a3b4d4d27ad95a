"""Runs that Slurm itself takes from a node it set DOWN, in pools with `hold_until_fenced`: found and held."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from remediator.clock import Clock
from remediator.model.ids import incident_id
from remediator.model.incident import HOLD_JOB, Incident
from remediator.model.machine import Machine
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.run.hosts import Hosts
from remediator.signals.lost_runs import LOST_RUN, lost_runs, runs_on
from remediator.store import incidents, outbox, steps
from remediator.workflow import notices
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
FRESH_S = 600.0  # Slurm starts the job 121 s after its other nodes have let it go
MOVES = frozenset({"move-jobs", "full"})
Judged = tuple[str, str | None]


class LostRuns:
    """Remembers what runs on a node that is silent: once it is DOWN, Slurm does not say any more.

    Slurm's jobs are asked for only while a node of such a pool is silent, or newly DOWN.
    """

    def __init__(self, port: SlurmPort, hosts: Hosts, clock: Clock) -> None:
        self._port = port
        self._hosts = hosts
        self._clock = clock
        self._down_since: dict[str, float] = {}
        self._runs: dict[JobRun, str] = {}

    def look(self, slurm: Mapping[str, SlurmNode]) -> list[Signal]:
        """What to tell of the runs that these nodes lost."""
        mute = {name: node for name in self._silent(slurm) if (node := self._held_for(name))}
        self._runs = {run: node for run, node in self._runs.items() if run.nodes[0] in mute}
        if not mute:
            return []
        jobs = self._port.jobs(deadline=DEADLINE_S)
        for name, node in mute.items():
            self._runs |= dict.fromkeys(runs_on(jobs, name), node)
        return lost_runs(jobs, self._runs, self._clock.now())

    def _silent(self, slurm: Mapping[str, SlurmNode]) -> list[str]:
        """Silent nodes, without those that have been DOWN for so long that Slurm has restarted their jobs."""
        now = self._clock.steady()
        silent = [node for node in slurm.values() if node.is_silent]
        self._down_since = {
            node.name: self._down_since.get(node.name, now) for node in silent if node.is_down
        }
        return [node.name for node in silent if now - self._down_since.get(node.name, now) < FRESH_S]

    def _held_for(self, worker: str) -> str | None:
        """The machine of a worker, when its pool wants jobs to be held for it."""
        name = self._hosts.node_of(worker)
        machine = self._hosts.machine(name) if name else None
        return machine.name if machine is not None and machine.hold_until_fenced else None


class Keeper:
    """Judges a lost run once, in the core's transaction: it is held unless an incident moves it already."""

    def __init__(self, hosts: Hosts, engine: Engine, journal: Journal) -> None:
        self._hosts = hosts
        self._engine = engine
        self._journal = journal

    def judge(self, connection: sa.Connection, signal: Signal, now: float) -> Judged:
        """What became of it, and the incident it is about."""
        run = JobRun.model_validate(signal.detail)
        lost = ", ".join(run.nodes)
        told = f"job {run.address} lost {lost} to DOWN"
        mover = steps.mover_of(connection, run)
        if mover is not None:
            return f"{told}: incident {mover} sees to it", mover
        machine = self._hosts.machine(signal.node)
        if machine is None or machine.stage_for("T0") not in MOVES:
            return f"{told}: recorded, as its pool moves no jobs", None
        return self._hold(connection, signal, machine, run, told, now)

    def _hold(
        self, connection: sa.Connection, signal: Signal, machine: Machine, run: JobRun, told: str, now: float
    ) -> Judged:
        why = f"{told} while its processes there may live on: it is held until they are surely gone"
        incident = Incident(
            id=incident_id(now),
            key=f"job/{run.job_id}",
            node=machine.name,
            node_uid=machine.uid,
            boot_id=machine.boot_id,
            slurm_nodes=machine.slurm_nodes,
            pool=machine.pool or "",
            tier="T0",
            rule=LOST_RUN,
            cause=told,
            plan=HOLD_JOB,
            sentence=f"dry run: {why}" if self._engine.dry_run else why,
            fault_at=now,
            opened_at=now,
        )
        incidents.insert(connection, incident)
        detail = {"rule": incident.rule, "plan": incident.plan, "evidence": signal.dedupe}
        self._journal.record(connection, "decision", incident, now, why=incident.sentence, detail=detail)
        self._engine.start(connection, incident, now)
        self._engine.adopt(connection, incident, run, now, lost=run.nodes[0])
        outbox.put(connection, incident.id, [notices.look(f"incident {incident.id}: {why}")], now)
        return why, incident.id
