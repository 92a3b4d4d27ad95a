"""Ended jobs become restarts and strikes: asks inventory, store and policy, writes what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from remediator.incidents.pointed import alike
from remediator.model.incident import RESTART_JOB, Incident
from remediator.model.job_end import JobEnd
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.model.strike import Strike
from remediator.policy.crashes import STORM_S, Crash, Restart, decide_restart, no_crash
from remediator.policy.rules import Rules
from remediator.run.hosts import Hosts, machines_in_pools
from remediator.run.restarts import Reason, Restarts, job_key
from remediator.run.suspects import DAY_S, suspected
from remediator.settings import Crashes as Limits
from remediator.signals.job_ends import JOB_ENDED, JOB_WATCH
from remediator.store import incidents, outbox, signals, steps, strikes
from remediator.workflow import notices
from remediator.workflow.engine import Engine
from remediator.workflow.forgotten import ASKS
from remediator.workflow.journal import Journal

SETTLE_S = 5.0  # evidence of the same fault may come a little later than the job's end
FORGETFUL_S = 15.0  # a Slurm that forgets a job so soon must be asked to restart it at once
T2_S = 60.0
CRASH = "job-crash"
START_S = 300.0  # a large checkpoint takes minutes to load
MOVES = ("move-jobs", "replace")
YIELDED = frozenset({"yielding", "overridden"})  # a person decided otherwise: nothing is moved any more
KINDS = frozenset({JOB_ENDED, JOB_WATCH})
Judged = tuple[str, str | None]


class Crashes:
    """Judges the end of a job once, in the core's transaction."""

    def __init__(
        self, hosts: Hosts, rules: Rules, limits: Limits, cluster: str, engine: Engine, journal: Journal
    ) -> None:
        self._hosts = hosts
        self._rules = rules
        self._limits = limits
        self._cluster = cluster
        self._engine = engine
        self._journal = journal
        self._restarts = Restarts(cluster, engine, journal)

    def judge(self, connection: sa.Connection, signal: Signal, now: float) -> Judged | None:
        """What became of it; None while it is too early to say."""
        if signal.kind == JOB_WATCH:
            return "the ends of Slurm's jobs are watched from now on", None
        end = JobEnd.model_validate(signal.detail)
        if now - signal.received_at < _settle_s(end) or self._is_moving(connection, end):
            return None
        machines = self._machines(end)
        if not machines:
            return f"job {end.run.address} {end.how}, on no node of a pool: recorded", None
        return self._settle(connection, signal, end, machines, now)

    def suspects(self, connection: sa.Connection, signal: Signal, now: float) -> list[tuple[Machine, str]]:
        """Machines that this end makes suspect, and why; only those it struck."""
        if signal.kind == JOB_WATCH:
            return []
        end = JobEnd.model_validate(signal.detail)
        struck = strikes.of_run(connection, end.run.key)
        return self.suspected(connection, [one for one in self._machines(end) if one.key in struck], now)

    def suspected(
        self, connection: sa.Connection, struck: Sequence[Machine], now: float
    ) -> list[tuple[Machine, str]]:
        """Those of `struck` that crashes make suspect by now, and why."""
        return suspected(connection, struck, self._hosts.machine, self._limits, now)

    def _settle(
        self,
        connection: sa.Connection,
        signal: Signal,
        end: JobEnd,
        machines: Sequence[Machine],
        now: float,
    ) -> Judged:
        covering = self._covering(connection, end)
        spared = no_crash(signal, self._rules)
        if not spared and end.ended >= _watching_since(connection):
            struck = self._strikes(connection, signal, end, machines, covering)
            self._count(connection, struck, end, now)
        crash = replace(self._crash(connection, end, machines, covering, now), no_crash=spared)
        restart = self._owned(connection, end) or decide_restart(crash)
        if restart.tell and not self._engine.dry_run:
            message = notices.left_failed(end.run, restart.sentence)
            page = [notices.look(restart.sentence)] if restart.page else []
            outbox.put(connection, "", [message, *page], now)
        if not restart.yes:
            return restart.sentence, None
        cause, detail = f"job {end.run.address} {end.how}", {"rule": CRASH, "evidence": signal.dedupe}
        reason = Reason(CRASH, cause, restart.sentence, end.ended, detail)
        return restart.sentence, self._restarts.begin(connection, end.run, machines[0], reason, now)

    def _machines(self, end: JobEnd) -> list[Machine]:
        return machines_in_pools(self._hosts, end.run.nodes)

    def _covering(self, connection: sa.Connection, end: JobEnd) -> list[Incident]:
        """Incidents that move jobs off a node of this run because of a fault that came while it ran."""
        began = end.began if end.began is not None else end.ended
        return [
            incident
            for incident in incidents.treating(connection, MOVES, began - 1)
            if incident.state not in YIELDED
            and set(incident.slurm_nodes) & set(end.run.nodes)
            and incident.fault_at <= end.ended + T2_S
        ]

    def _strikes(
        self,
        connection: sa.Connection,
        signal: Signal,
        end: JobEnd,
        machines: Sequence[Machine],
        covering: Sequence[Incident],
    ) -> list[Strike]:
        """One for each machine that may be at fault: those that said so (T2), else all of them."""
        said = {one.key: dedupe for one in machines if (dedupe := self._said(connection, one, end))}
        without = [] if covering or self._began_badly(connection, end, machines) else machines
        accused = [machine for machine in machines if machine.key in said] or without
        run, job, work = end.run.key, end.job, end.work
        return [
            Strike(run, job, work, one.key, one.name, end.ended, said.get(one.key, signal.dedupe))
            for one in accused
        ]

    def _began_badly(self, connection: sa.Connection, end: JobEnd, machines: Sequence[Machine]) -> bool:
        """Whether the run ended at its start and what it began from may be unfinished: no node's fault."""
        if end.began is None or end.ended - end.began > START_S:
            return False
        return any(self._engine.saved(connection, one.pool or "", end.run).partial for one in machines)

    def _count(self, connection: sa.Connection, found: Sequence[Strike], end: JobEnd, now: float) -> None:
        strikes.add(connection, found)
        for strike in found:
            why = f"job {end.run.address} of {end.run.user or 'unknown'} {end.how} on {strike.node}"
            detail = {"run": strike.run, "work": strike.work, "evidence": strike.evidence}
            self._journal.record(connection, "strike", None, now, why=why, target=strike.node, detail=detail)

    def _said(self, connection: sa.Connection, machine: Machine, end: JobEnd) -> str | None:
        """The T2 evidence of this machine's present boot within a minute before the end."""
        since = max(end.ended - T2_S, end.began or 0.0)
        for seen in signals.of_node(connection, machine.name, since):
            found = self._rules.find(seen, machine)
            says = found is not None and found[1].plan == RESTART_JOB
            if says and seen.boot_id == machine.boot_id and seen.seen_at <= end.ended + SETTLE_S:
                return seen.dedupe
        return None

    def _crash(
        self,
        connection: sa.Connection,
        end: JobEnd,
        machines: Sequence[Machine],
        covering: Sequence[Incident],
        now: float,
    ) -> Crash:
        since = now - self._limits.window_days * DAY_S
        return Crash(
            end=end,
            watching_since=_watching_since(connection),
            covered=covering[0].id if covering else "",
            stages=frozenset(machine.stage_for("T3") for machine in machines),
            wanted=all(machine.restart_failed_jobs for machine in machines),
            restarts=incidents.count_for(connection, job_key(end.run), since),
            limit=self._limits.restarts,
            lately=strikes.jobs_between(connection, end.ended - STORM_S, end.ended + STORM_S),
            now=now,
            alike=alike(strikes.rows_of_job(connection, end.job, since)),
        )

    def _is_moving(self, connection: sa.Connection, end: JobEnd) -> bool:
        """Whether an incident has yet to find out what became of this run, or of an earlier one."""
        if incidents.open_for(connection, job_key(end.run)):
            return True
        owner = steps.owner_of(connection, self._cluster, end.run)
        moving = incidents.get(connection, owner) if owner else None
        row = steps.of_run(connection, owner, "release-jobs", end.run) if owner else None
        is_open = moving is not None and moving.goes_on
        return is_open and row is not None and row.state != "done"

    def _owned(self, connection: sa.Connection, end: JobEnd) -> Restart | None:
        """A run has one requeue: an incident that owns it and whose requeue was taken has had it."""
        owner = steps.owner_of(connection, self._cluster, end.run)
        row = steps.of_run(connection, owner, "release-jobs", end.run) if owner else None
        if owner is None or (row is not None and ASKS not in row.facts):
            return None
        return Restart(False, f"job {end.run.address} {end.how}: incident {owner} has had its requeue")


def _settle_s(end: JobEnd) -> float:
    is_forgotten_soon = end.remembered_s and end.remembered_s < FORGETFUL_S
    return 0.0 if is_forgotten_soon else SETTLE_S


def _watching_since(connection: sa.Connection) -> float:
    """What ended before this store first looked at Slurm's jobs is not restarted, nor held against a node."""
    return signals.first_seen(connection, JOB_WATCH) or 0.0
