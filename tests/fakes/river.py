"""The whole river in one process and virtual time: real store, core and steps over fake servers.

A crash throws away everything but the store and the servers, as a SIGKILL does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.errors import RemediatorError
from remediator.guard import open_guard
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, is_slurm_worker
from remediator.kube.spare import SpareKeys
from remediator.model.checkpoint import CheckpointLook, Checkpoints, JobKey
from remediator.model.incident import Incident
from remediator.model.plan import Outcome, StepRow
from remediator.model.signal import Signal
from remediator.model.view import Drained, SlurmView
from remediator.policy import rules
from remediator.run.core import Core, Turn
from remediator.run.crashes import Crashes
from remediator.run.inventory import CachedInventory
from remediator.run.job_ends import JobEnds
from remediator.run.jumps import Jumps
from remediator.run.lost_runs import Keeper
from remediator.run.outage import Outage
from remediator.run.stalled_jobs import StalledJobs
from remediator.run.triage import Triage
from remediator.settings import Budgets, Pool, Requeues, Stage
from remediator.settings import Crashes as Limits
from remediator.store import checkpoints, incidents, leadership, signals, steps
from remediator.store.engine import open_store
from remediator.workflow.attempt import attempt
from remediator.workflow.calls import Answer, Call, answers, asked_early
from remediator.workflow.context import Conduct, Context, NoSpare, Ports, Watched
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.judged import Nodes as SlurmNodes
from remediator.workflow.ledger import Ledger
from remediator.workflow.saved import Clocks
from remediator.workflow.step import Hurried
from remediator.workflow.steps import STEPS
from slurm_bridge.model import SlurmJob
from tests.fakes.kube import FakeCluster
from tests.fakes.slurm import FakeSlurm
from tests.fakes.views import Same

NODES = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
POOLS = {"training": Pool(node_selector={"pool": "training"}, stage="full")}
WORKER = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}


def _taints(node: NodeView) -> set[str]:
    return {taint.key for taint in node.taints}


class Crash(BaseException):
    """The process died here; nothing may catch it."""


def no_probe(_moment: str) -> None:
    """Nobody crashes."""


class OwnClock(ManualClock):
    """The controller machine's clock in the world's virtual time; `set_by` is how wrong it is."""

    def __init__(self, world: ManualClock) -> None:
        super().__init__()
        self._world = world
        self.set_by = 0.0

    def now(self) -> float:
        """The world's time, and what somebody has set this clock by."""
        return self._world.now() + self.set_by

    def steady(self) -> float:
        """As the world's."""
        return self._world.steady()


class River:
    """One cluster, one store, and as many controller lives as the test wants."""

    per_node = 1
    """Workers that share a machine."""

    def __init__(
        self,
        folder: Path,
        *,
        budgets: Budgets | None = None,
        spares: int = 1,
        no_spare: NoSpare = "go-on",
        no_spare_of: Mapping[str, NoSpare] | None = None,
        stage: Stage | None = None,
        dry_run: bool = False,
        policy: rules.Rules | None = None,
        glob: str = "",
        nodes: Sequence[str] = NODES,
    ) -> None:
        self.dry_run = dry_run
        self.policy = policy or rules.load()
        self.glob = glob
        self.first = tuple(nodes)
        self.folder = folder
        self.pools = {"training": Pool(node_selector={"pool": "training"}, stage=stage)} if stage else POOLS
        self.clock = ManualClock()
        self.own = OwnClock(self.clock)
        self.homes: dict[str, str] = {}
        self.workers = [worker for name in self.first for worker in self.workers_of(name)]
        self.slurm = self.new_slurm()
        self.kube = FakeCluster(self.clock)
        for name in self.first:
            self.kube.add_node(
                name, labels={"pool": "training"}, boot_id=f"boot-{name}", taints=(SpareKeys().worker,)
            )
            for worker in self.workers_of(name):
                self.add_worker(worker, name)
        self.names = [*self.first, *(f"spare-{number}" for number in range(spares))]
        for name in self.names[len(self.first) :]:
            self.kube.add_spare(name, {"pool": "training"})
        self.homeless: set[str] = set()
        pools = {"training": {"pool": "training"}}
        self.conduct = Conduct(no_spare=no_spare, no_spare_of=no_spare_of or {}, pools=pools)
        self.outage = Outage(self.clock)
        self.store = open_store(f"sqlite:///{folder}/river.db")
        sa.event.listen(self.store.engine, "connect", _careless)
        self.store.close()  # else the connection that opened it is used on, as careful as it is
        self.budgets = budgets or Budgets(enabled=False)
        self.probe: Callable[[str], None] = no_probe
        self.lives = 0
        self.answers: list[Answer] = []
        self.limits, self.requeues = Limits(), Requeues()
        self.watched = Watched(self._named, self._workers_on)
        self.begin()

    def begin(self) -> None:
        """A controller starts, in the next epoch, with nothing but the store."""
        self.lives += 1
        with self.store.write() as connection:
            epoch = leadership.acquire(connection, f"life-{self.lives}", 10.0, sole=True)
        assert epoch is not None
        journal = Journal(f"life-{self.lives}", epoch)
        inventory = self.inventory()
        ledger = Ledger(self.budgets, inventory.pool_size, journal, inventory.share_size)
        engine = Engine(journal, "test", ledger, requeues=self.requeues, dry_run=self.dry_run,
                        clocks=Clocks({"training": self.glob} if self.glob else {}))  # fmt: skip
        crashes = Crashes(inventory, self.policy, self.limits, "test", engine, journal)
        keeper = Keeper(inventory, engine, journal)
        stalled = StalledJobs(inventory, self.policy, self.limits, "test", engine, journal)
        triage = Triage(inventory, self.policy, ledger, engine, journal, crashes, keeper, stalled)
        self.core = Core(self.store, engine, triage, journal, self.outage.says, ask_early=self.ask_early)
        self.jumps = Jumps(self.own)
        self.answers = []
        self.treated: frozenset[str] = frozenset()
        self.view = SlurmView()
        guard = open_guard(self.clock, inventory, dry_run=self.dry_run, frozen=self.outage.says)
        self.ports = Ports(
            Scheduler(self.slurm, guard),
            Nodes(self.kube, guard),
            Spares(self.kube.spares, guard),
            Acceptance(self.kube.bench, guard),
        )

    def new_slurm(self) -> FakeSlurm:
        """The scheduler of this cluster."""
        return FakeSlurm(self.clock, nodes=tuple(self.workers))

    def inventory(self) -> CachedInventory:
        """Caches that are always up to date."""
        return CachedInventory(
            self._named,
            Same(lambda: map(self.kube.view, self.names)),
            Same(self.kube.pods),
            self.pools,
            self.budgets.guard,
        )

    def _named(self, name: str) -> NodeView | None:
        return self.kube.view(name) if name in self.names else None

    def _workers_on(self, node: str) -> list[PodView]:
        return [pod for pod in self.kube.pods() if pod.node == node and is_slurm_worker(pod)]

    def submit_job(self, *, width: int = 2, save: float = 1.0, **fields: Any) -> int:
        """A batch job that can be requeued; started when this returns."""
        base: dict[str, Any] = {
            "name": "train",
            "user": "alice",
            "batch": True,
            "requeue": True,
            "state": "PENDING",
        }
        job = self.slurm.submit(SlurmJob(job_id=0, **(base | fields)), width=width, save=save)
        self.clock.advance(2.0)
        self.slurm.jobs(deadline=5.0)
        return job

    def xid(self, node: str, code: int = 79, *, seq: int = 1, boot: str | None = None) -> None:
        """A kernel line of `node` has been pushed and committed."""
        boot = boot if boot is not None else self.kube.view(node).boot_id if node in self.first else "boot-x"
        signal = Signal(
            source="agent",
            node=node,
            boot_id=boot,
            kind="xid",
            code=code,
            pci="0000:18:00",
            seen_at=self.clock.now(),
            received_at=self.own.now(),
            dedupe=f"agent:{node}:{boot}:{seq}",
        )
        with self.store.write() as connection:
            signals.insert_new(connection, [signal])

    def sees_saved(self, job: int, *saved_at: float, **seen: Any) -> None:
        """An agent has just looked: the job's complete checkpoints were written at these times."""
        ages = tuple(self.clock.now() - at for at in sorted(saved_at, reverse=True))
        newest = f"step_{len(ages)}" if ages else ""
        found = Checkpoints(key=JobKey(job=str(job)), newest=newest, ages=ages, **seen)
        look = CheckpointLook(glob=self.glob, looked_s=0.0, found=(found,))
        with self.store.write() as connection:
            checkpoints.put(connection, "login-0", [look], self.own.now())

    def watch_jobs(self) -> None:
        """The look at Slurm's job list; no look happens unless a test asks for it."""
        JobEnds(self.slurm, self._submit, self.own, 30.0).look()

    def _submit(self, found: Sequence[Signal]) -> None:
        with self.store.write() as connection:
            signals.insert_new(connection, found)

    def turn(self) -> list[Call]:
        """One turn of the core and all its calls; then 0.1 s pass, or up to 1 s when nobody works."""
        with suppress(RemediatorError):
            self.look()
        turn = self.core.turn(self.own.now(), self.answers, self.view, self.jumps.seconds())
        self.treated = turn.treated
        work = partial(self._work, self.own.now() - self.own.steady())
        self.answers = [answer for call in turn.calls for answer in answers(call, work)]
        self.clock.advance(self.pause(turn))
        self.slinky()
        return list(turn.calls)

    def pause(self, turn: Turn) -> float:
        """Seconds until the next turn."""
        return 0.1 if turn.calls else min(max(turn.wake_at - self.own.now(), 0.1), 1.0)

    def workers_of(self, node: str) -> tuple[str, ...]:
        """The workers that are on a node at first."""
        return (f"w-{node}",)

    def add_worker(self, worker: str, node: str) -> None:
        """A worker's pod comes onto a node."""
        self.homes[worker] = node
        self.kube.add_pod("slurm", worker, node, labels=WORKER)

    def slinky(self) -> None:
        """The operator and the scheduler: a worker that was evicted comes up on a free worker node."""
        for worker in self.workers:
            if self.kube.pod("slurm", worker) is None and worker not in self.homeless:
                self.homeless.add(worker)
                self.slurm.stop_worker(worker)
        for worker in sorted(self.homeless):
            free = [name for name in self.names if self.takes_workers(name)]
            if free:
                self.homeless.remove(worker)
                self.place(worker, free[0])

    def place(self, worker: str, node: str) -> None:
        """A worker's pod runs again: elsewhere the operator sets IDLE, on the same node nobody does."""
        same = self.homes.get(worker) == node
        self.add_worker(worker, node)
        (self.slurm.start_worker if same else self.slurm.move_worker)(worker)

    def takes_workers(self, name: str) -> bool:
        """Whether a worker that looks for a node may come onto this one."""
        node = self.kube.view(name)
        there = sum(self.worker_node(worker) == name for worker in self.workers)
        return _taints(node) == {SpareKeys().worker} and not node.unschedulable and there < self.per_node

    def add_spare(self, name: str) -> None:
        """A spare of the pool comes in."""
        self.names.append(name)
        self.kube.add_spare(name, {"pool": "training"})

    def make_spare(self, name: str) -> None:
        """A person makes a spare of a node that is there."""
        keys = SpareKeys()
        self.kube.outside(name, "label", {"metadata": {"labels": {keys.spare: keys.value}}}, "admin")
        self.kube.set_taints(name, [{"key": keys.spare, "value": keys.value, "effect": "NoSchedule"}])

    def steps(self, incident: str) -> list[StepRow]:
        """An incident's steps in plan order."""
        with self.store.read() as connection:
            return steps.of_incident(connection, incident)

    def admitted(self) -> list[str]:
        """Spares that workers may run on by now."""
        spares = self.names[len(self.first) :]
        return [name for name in spares if SpareKeys().worker in _taints(self.kube.view(name))]

    def worker_node(self, worker: str) -> str | None:
        """Where a worker's pod is."""
        pod = self.kube.pod("slurm", worker)
        return pod.node if pod else None

    def look(self) -> None:
        """The Slurm poll: what is seen of the nodes under treatment."""
        seen = {}
        for name in self.treated:
            node = self.slurm.node(name, deadline=5.0)
            if node is not None:
                started = node.slurmd_start_time
                seen[name] = Drained(node.is_drain, node.reason, self.own.now(), started)
        self.view = SlurmView(seen)

    def _context(self, ahead: float, call: Call) -> Context:
        return Context(
            call.incident,
            call.row,
            ahead + self.own.steady(),
            self.ports,
            self.conduct,
            call.run,
            call.runs,
            call.spare,
            call.taken_spares,
            go_on=call.go_on,
            straight_on=call.straight_on,
            early=call.early,
            watched=self.watched,
            saved=call.saved,
            stopped_at=call.stopped_at,
        )

    def _work(self, ahead: float, call: Call) -> Outcome | None:
        context = self._context(ahead, call)
        return attempt(STEPS[call.row.name], context, may_act=call.may_act, probe=self.probe)

    def ask_early(self, call: Call) -> Call:
        """The call; a step in a hurry looks before its INTENT is committed, here at once."""
        ahead = self.own.now() - self.own.steady()

        def ask(step: Hurried) -> Future[SlurmNodes]:
            asked: Future[SlurmNodes] = Future()
            asked.set_running_or_notify_cancel()
            try:
                asked.set_result(step.look_early(self._context(ahead, call)))
            except RemediatorError as error:
                asked.set_exception(error)
            return asked

        return asked_early(call, ask, self.own.now())

    def run(self, seconds: float = 300.0) -> None:
        """Turn until no incident is open or `seconds` have passed."""
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            self.turn()
            if not self.open_incidents() and not self.answers:
                return

    def crash_at(self, *moments: str) -> list[str]:
        """The process dies at each of these moments, in this order; the list grows with each that came."""
        crashed: list[str] = []

        def probe(now: str) -> None:
            if now in moments[len(crashed) :][:1]:
                crashed.append(now)
                raise Crash(now)

        self.probe = probe
        return crashed

    def settle(self, seconds: float = 60.0) -> None:
        """Look at the job list and turn for so long; a Crash ends a life, the next begins 2 s later."""
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            try:
                self.watch_jobs()
                self.turn()
            except Crash:
                self.clock.advance(2.0)
                self.begin()

    def run_through_crashes(self, seconds: float = 300.0) -> None:
        """As `run`, but a Crash ends this life and the next begins 2 s later."""
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            try:
                self.run(until - self.clock.now())
            except Crash:
                self.clock.advance(2.0)
                self.begin()
            else:
                return

    def open_incidents(self) -> list[Incident]:
        """Incidents that are not closed."""
        with self.store.read() as connection:
            return incidents.all_open(connection)

    def all_incidents(self) -> list[Incident]:
        """All incidents, newest first."""
        with self.store.read() as connection:
            return incidents.recent(connection)

    def job(self, job_id: int) -> SlurmJob:
        """The job as Slurm shows it now."""
        found = self.slurm.job(job_id, deadline=5.0)
        assert found is not None
        return found


def _careless(connection: sqlite3.Connection, _record: object) -> None:
    """A crash here ends no process: nothing has to reach the disk, thousands of commits a minute."""
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA journal_mode=MEMORY")
