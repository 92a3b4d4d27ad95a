"""A job that stands still is restarted, or people are told: asks rules, store and settings, in the core."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.model.faults import JOB_STALLED
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.policy.crashes import Restart
from remediator.policy.rules import Rules
from remediator.policy.stalls import Stall, decide_stall
from remediator.run.hosts import Hosts, machines_in_pools
from remediator.run.restarts import Reason, Restarts, job_key
from remediator.run.suspects import DAY_S
from remediator.settings import Crashes as Limits
from remediator.store import incidents, outbox, steps
from remediator.workflow import notices
from remediator.workflow.engine import Engine
from remediator.workflow.forgotten import ASKS
from remediator.workflow.journal import Journal

HOUR_S = 3600.0
MOVES = ("move-jobs", "replace")
ASKING = ("release-jobs", "restart-job")
Judged = tuple[str, str | None]


class StalledJobs:
    """Judges a stall once, in the core's transaction; a job's restarts after crashes count with these."""

    def __init__(
        self, hosts: Hosts, rules: Rules, limits: Limits, cluster: str, engine: Engine, journal: Journal
    ) -> None:
        self._hosts = hosts
        self._rules = rules
        self._limits = limits
        self._cluster = cluster
        self._engine = engine
        self._restarts = Restarts(cluster, engine, journal)

    def judge(self, connection: sa.Connection, signal: Signal, now: float) -> Judged:
        """What became of it, and the incident that restarts the job if one does."""
        run = JobRun.model_validate(signal.detail["run"])
        machines = self._machines(run)
        stall = self._stall(connection, signal, run, machines, now)
        restart = decide_stall(stall)
        if restart.yes:
            reason = self._reason(signal, run, machines[0], restart.sentence)
            return restart.sentence, self._restarts.begin(connection, run, machines[0], reason, now)
        if restart.tell and not self._engine.dry_run:
            outbox.put(connection, "", [notices.left_failed(run, restart.sentence)], now)
            self._page(connection, stall, restart, now)
        return restart.sentence, None

    def _machines(self, run: JobRun) -> list[Machine]:
        return machines_in_pools(self._hosts, run.nodes)

    def _stall(
        self, connection: sa.Connection, signal: Signal, run: JobRun, machines: Sequence[Machine], now: float
    ) -> Stall:
        found = self._rules.find(signal, machines[0] if machines else None)
        since, extra = float(signal.detail["since"]), signal.detail["extra"]
        counted = now - self._limits.window_days * DAY_S
        return Stall(
            run=run,
            says=str(signal.detail["says"]),
            rule=found[1] if found else None,
            seen_s=now - signal.received_at,
            together=int(extra["together"]),
            covered=self._covered(connection, run),
            saved=any(self._has_saved(connection, one, run, since) for one in machines),
            stages=frozenset(machine.stage_for("T3") for machine in machines),
            wanted=all(machine.restart_failed_jobs for machine in machines),
            restarts=incidents.count_for(connection, job_key(run), counted),
            limit=self._limits.restarts,
        )

    def _covered(self, connection: sa.Connection, run: JobRun) -> str:
        """The incident that sees to this run: an open one, or one that has asked for its one requeue."""
        own = incidents.open_for(connection, job_key(run)) or self._moves(connection, run)
        mover = own.id if own else steps.mover_of(connection, run)
        owner = steps.owner_of(connection, self._cluster, run)
        if mover or owner is None:
            return mover or ""
        rows = [steps.of_run(connection, owner, name, run) for name in ASKING]
        asked = any(row is not None and (ASKS in row.facts or row.acted_at is not None) for row in rows)
        return owner if asked else ""

    def _moves(self, connection: sa.Connection, run: JobRun) -> Incident | None:
        """One that has yet to find the run on the machine it empties."""
        moving = (one for one in incidents.all_open(connection) if one.plan in MOVES)
        return next((one for one in moving if set(one.slurm_nodes) & set(run.nodes)), None)

    def _has_saved(self, connection: sa.Connection, machine: Machine, run: JobRun, since: float) -> bool:
        """Whether a checkpoint was completed since then, or is being written: the job lives."""
        saved = self._engine.saved(connection, machine.pool or "", run)
        return saved.writing or (saved.newest_at or 0.0) > since

    def _page(self, connection: sa.Connection, stall: Stall, restart: Restart, now: float) -> None:
        """Once an hour, however many jobs stand still."""
        beginning = f"{JOB_STALLED}: "
        wanted = stall.rule is not None and stall.rule.page
        if wanted and not outbox.told_since(connection, beginning, now - HOUR_S):
            outbox.put(connection, "", [notices.look(f"{beginning}{restart.sentence}")], now)

    def _reason(self, signal: Signal, run: JobRun, machine: Machine, sentence: str) -> Reason:
        found = self._rules.find(signal, machine)
        detail = {
            "rule": found[0] if found else "",
            "policy": self._rules.digest,
            "evidence": signal.dedupe,
            "nodes": signal.detail.get("nodes", []),
        }
        cause = f"job {run.address} stands still"
        return Reason(JOB_STALLED, cause, sentence, float(signal.detail["since"]), detail)
