"""The controller process: the one list of everything that runs in it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette

from remediator.actuators.acceptance import Acceptance, PodBench
from remediator.actuators.cluster import KubeCluster
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import LabelledSpares, Spares
from remediator.clock import SystemClock
from remediator.errors import Fenced
from remediator.guard import Guard
from remediator.kube.acceptance import TestPod
from remediator.kube.credentials import loader
from remediator.kube.lease import LeaseMirror
from remediator.kube.reviews import review
from remediator.kube.session import Session
from remediator.kube.spare import SpareKeys
from remediator.model.checkpoint import CheckpointLook
from remediator.notify.channels import Channel, FileChannel, LogChannel
from remediator.observe import logs
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.run.backfill import Backfill, query_of, sources_of
from remediator.run.caches import Caches
from remediator.run.core import Core
from remediator.run.crashes import Crashes
from remediator.run.drains import LastList
from remediator.run.failpoint import from_environment
from remediator.run.forensics import Forensics
from remediator.run.garbage import Garbage
from remediator.run.heartbeats import Heartbeats
from remediator.run.inbox import Inbox
from remediator.run.leader import Leader, lock_file
from remediator.run.lookouts import lookouts
from remediator.run.loop import CoreLoop
from remediator.run.lost_runs import Keeper
from remediator.run.mirror import Mirror
from remediator.run.outage import Outage
from remediator.run.outbox import Outbox
from remediator.run.silence import Silence
from remediator.run.site_policy import SitePolicy
from remediator.run.slurm_poll import SlurmPoll
from remediator.run.stalled_jobs import StalledJobs
from remediator.run.thresholds import Thresholds
from remediator.run.triage import Triage
from remediator.run.workers import Workers
from remediator.settings import Settings
from remediator.signals.intake import Intake
from remediator.store import checkpoints
from remediator.store.engine import open_store
from remediator.web.alerts import Alerts
from remediator.web.app import create_app
from remediator.web.auth import AgentAuth
from remediator.web.pushes import Pushes
from remediator.web.server import HttpServer
from remediator.workflow.calls import Call
from remediator.workflow.context import Conduct, Context, Ports, Watched
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger
from remediator.workflow.saved import Clocks
from remediator.workflow.together import SideBySide
from slurm_bridge.backends import open_slurm

LOST_LEADERSHIP = 70
POOL_SIZE = 40  # twelve workers and their readers, two watches, reviews, and some air
CORE_LIMIT_S = 60.0
REVIEW_S = 3.0
LATE_S = 15.0  # by then the look for silence has failed to read Slurm's nodes
log = logs.logger(stage="controller")
SWITCH_S = 0.0005
"""For how long a thread with an answer in hand waits for one that computes; Python says 5 ms."""


def run(settings: Settings) -> None:
    """Run until SIGTERM, or until leadership is lost: then exit with status 70, a restart is the cure."""
    logs.configure(settings.log.level)
    threading.excepthook = unforeseen
    sys.setswitchinterval(SWITCH_S)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The first process of a container has no default handler: it would sit out its whole grace.
        signal.signal(number, lambda *_: os._exit(0))
    controller = Controller(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: controller.loop.stop())
    controller.start()
    controller.garbage.settle()
    try:
        controller.loop.run()
    except Fenced as error:
        _die(str(error))
    controller.stop()


class Controller:
    """Built in the order things depend on each other; stopped in the reverse order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.health, self.metrics = Health(self.clock), Metrics()
        self.inbox, self.garbage = Inbox(), Garbage(self.clock)
        self.site_policy = SitePolicy(settings.policy.overlay, self.metrics, self.inbox.nudge)
        self.policy = self.site_policy.rules
        self._lock = lock_file(settings.store.url)
        self.store = open_store(settings.store.url)
        self.session = Session(loader(settings.kubernetes.kubeconfig, POOL_SIZE), self.clock)
        self.outage = Outage(self.clock)
        self.caches = Caches(self.session, self.clock, self.inbox.nudge, self._kubelet_lost)
        self.leader = Leader(self.store, settings.leadership, self.clock, lambda: _die("the lease is lost"))
        self.holder = socket.gethostname()
        epoch = self.leader.acquire(self.holder, sole=self._lock is not None)
        self.inventory = self.caches.inventory(
            settings.pools, settings.budgets.guard, settings.webhook.looks_back_s
        )
        self.guard = Guard(
            epoch,
            self.clock,
            self.leader.current,
            territory=self.inventory,
            dry_run=settings.dry_run,
            frozen=self.outage.says,
        )
        self.slurm = open_slurm(settings.slurm, self.clock).port
        self.poll = SlurmPoll(
            self.slurm, self.clock, self.inbox.nudge, settings.slurm.poll_busy_s, settings.slurm.poll_idle_s
        )
        self.workers = self._workers()
        self.loop = self._loop()
        self.outbox = Outbox(self.store, self._channels(), self.clock)
        self.intake = Intake(self.store, self._committed, self.clock)
        self.thresholds = Thresholds(
            query_of(settings), self.inventory, self.intake.submit, self.metrics, self.clock
        )
        self.forensics = Forensics(
            query_of(settings), self.inventory, self.policy, self.intake.submit, self.clock
        )
        self.backfill = Backfill(
            sources_of(settings), settings.webhook, self.thresholds.submit, self.metrics, self.clock
        )
        self.heartbeats = Heartbeats(self.clock)
        self.listed = LastList(self.slurm, self.clock, settings.slurm.poll_idle_s + LATE_S)
        self.silence = self._silence()
        self.looks = lookouts(
            settings, self.slurm, self.listed, self.caches, self.inventory, self.store, self.metrics,
            self.intake.submit, self.forensics.submit, self.clock,
        )  # fmt: skip
        self.server = HttpServer(self._app(), settings.http.host, settings.http.port)
        self.mirror = self._mirror()

    def start(self) -> None:
        """Start every loop; the HTTP door opens last."""
        self.metrics.leadership(leading=True, epoch=self.guard.epoch)
        self.caches.report(self.health, self.metrics)
        self.metrics.watch_age("slurm", self.poll.age)
        self._thread("lease", self.leader.run)
        self.caches.start()
        self.intake.start()
        self.silence.look()  # before the first step: an outage may be under way
        self._thread("mirror", self.mirror.run)
        self._thread("slurm-poll", self.poll.run)
        self._thread("outbox", self.outbox.run)
        self._thread("backfill", self.backfill.run)
        self._thread("thresholds", self.thresholds.run)
        self._thread("forensics", self.forensics.run)
        self._thread("silence", self.silence.run)
        self._thread("policy", self.site_policy.run)
        for look in self.looks:
            self._thread(look.stage, look.run)
        self.metrics.dry_run(self.settings.dry_run)
        self.metrics.frozen(lambda: self.outage.says() is not None)
        if self.settings.dry_run:
            log.warning("dry_run is on: everything is decided, nothing is written to Slurm or Kubernetes")
        port = self.server.start()
        log.info("controller started", epoch=self.guard.epoch, port=port, policy=self.policy.digest)

    def stop(self) -> None:
        """Take nothing more in, finish what is under way, let go of the store."""
        self.server.stop()
        self.backfill.stop()
        self.thresholds.stop()
        self.forensics.stop()
        self.silence.stop()
        self.site_policy.stop()
        for look in self.looks:
            look.stop()
        self.intake.stop()
        self.workers.stop()
        self.mirror.stop()
        self.poll.stop()
        self.outbox.stop()
        self.caches.stop()
        self.leader.stop()
        self.store.close()
        log.info("controller stopped", epoch=self.guard.epoch)

    def _workers(self) -> Workers:
        scheduler = Scheduler(self.slurm, self.guard)
        nodes = Nodes(KubeCluster(self.session, self.clock), self.guard)
        pool = LabelledSpares(self.session, self.clock, SpareKeys())
        bench = PodBench(self.session, self.clock, self._test_pod())
        ports = Ports(scheduler, nodes, Spares(pool, self.guard), Acceptance(bench, self.guard))
        together = SideBySide()
        watched = Watched(self.caches.nodes.named, self.caches.workers_on, self.poll.config)
        conduct = self._conduct()

        def context_of(call: Call, now: float) -> Context:
            return Context(
                incident=call.incident,
                row=call.row,
                now=now,
                ports=ports,
                conduct=conduct,
                run=call.run,
                runs=call.runs,
                spare=call.spare,
                taken_spares=call.taken_spares,
                together=together,
                go_on=call.go_on,
                straight_on=call.straight_on,
                early=call.early,
                watched=watched,
                saved=call.saved,
                stopped_at=call.stopped_at,
            )

        state_dir = Path(self.settings.store.url.removeprefix("sqlite:///")).parent
        return Workers(
            context_of=context_of,
            clock=self.clock,
            answer=self.inbox.answer,
            fenced=lambda error: _die(str(error)),
            probe=from_environment(state_dir),
        )

    def _test_pod(self) -> TestPod | None:
        wanted = self.settings.acceptance
        if wanted.image is None:
            return None
        paths = tuple(map(str, wanted.host_paths))
        return TestPod(wanted.image, wanted.command, wanted.namespace, wanted.deadline_s, paths)

    def _kubelet_lost(self) -> None:
        self.silence.soon()

    def _conduct(self) -> Conduct:
        pools = {name: pool.node_selector for name, pool in self.settings.pools.items()}
        return Conduct(
            self.settings.no_replace_label,
            no_spare=self.settings.spares.when_none,
            maintenance_soon_s=self.settings.maintenance_soon_s,
            no_spare_of={n: p.when_no_spare for n, p in self.settings.pools.items() if p.when_no_spare},
            pools=pools,
            hold_until_fenced=frozenset(n for n, p in self.settings.pools.items() if p.hold_until_fenced),
        )

    def _loop(self) -> CoreLoop:
        journal = Journal(self.holder, self.guard.epoch)
        inventory = self.inventory
        ledger = Ledger(self.settings.budgets, inventory.pool_size, journal, inventory.share_size)
        limits, cluster = self.settings.crashes, self.settings.cluster.name
        engine = Engine(
            journal,
            cluster,
            ledger,
            requeues=self.settings.requeues,
            dry_run=self.settings.dry_run,
            clocks=self._clocks(),
        )
        crashes = Crashes(inventory, self.policy, limits, cluster, engine, journal)
        keeper = Keeper(inventory, engine, journal)
        stalled = StalledJobs(inventory, self.policy, limits, cluster, engine, journal)
        triage = Triage(inventory, self.policy, ledger, engine, journal, crashes, keeper, stalled)
        may, early = self.outage.says, self.workers.ask_early
        core = Core(self.store, engine, triage, journal, may, self.site_policy, early)
        beat = self.health.loop("core", CORE_LIMIT_S)
        submit, sweep = self.workers.submit, self.garbage.sweep
        return CoreLoop(core, self.inbox, self.poll, self.clock, submit, beat, self.metrics, sweep)

    def _keep_looks(self, node: str, looks: Sequence[CheckpointLook], now: float) -> None:
        with self.store.write() as connection:
            checkpoints.put(connection, node, looks, now)

    def _clocks(self) -> Clocks:
        pools = self.settings.pools.items()
        return Clocks({name: pool.checkpoint_glob for name, pool in pools if pool.checkpoint_glob})

    def _app(self) -> Starlette:
        http = self.settings.http
        self.metrics.agents_heard(self.heartbeats.count)
        auth = AgentAuth(
            lambda token: review(self.session, token, http.audience, deadline=REVIEW_S),
            http.agent_account,
            self.clock,
        )
        pushes = Pushes(
            auth=auth,
            hand_in=self.intake.hand_in,
            heartbeat=self.heartbeats.heard,
            looks=self._keep_looks,
            metrics=self.metrics,
            clock=self.clock,
            body_cap=http.body_cap_bytes,
        )
        alerts = Alerts(
            settings=self.settings.webhook,
            hand_in=self.intake.hand_in,
            taken=self.thresholds.stored,
            incomplete=self.backfill.ask,
            metrics=self.metrics,
            clock=self.clock,
        )
        doors = [pushes.route(), alerts.route()]
        return create_app(health=self.health, metrics=self.metrics, doors=doors)

    def _silence(self) -> Silence:
        return Silence(
            self.slurm,
            self.heartbeats,
            self.inventory,
            self.caches.nodes.objects,
            self.caches.nodes.age,
            self.intake.submit,
            self.outage,
            self.clock,
            self.settings.slurm.poll_idle_s,
            self.listed.keep,
        )

    def _channels(self) -> list[Channel]:
        file = self.settings.notify.file
        return [LogChannel(), *([FileChannel(file)] if file else [])]

    def _mirror(self) -> Mirror:
        names = self.settings.kubernetes
        lease = LeaseMirror(
            self.session,
            names.lease_namespace,
            names.lease_name,
            duration=int(self.settings.leadership.lease_s),
            clock=self.clock,
        )
        return Mirror(lease, self.guard, self.holder, self.settings.leadership.renew_s)

    def _committed(self, rows: int, seconds: float) -> None:
        self.metrics.intake_committed(rows, seconds)
        self.inbox.nudge()

    def _thread(self, name: str, target: Callable[[], None]) -> None:
        threading.Thread(target=target, name=name, daemon=True).start()


def unforeseen(failed: threading.ExceptHookArgs) -> None:
    """A bug ended a thread: a service without its lease, intake or watch looks alive and does nothing."""
    name = failed.thread.name if failed.thread else "?"
    log.error("a thread failed", thread=name, exc_info=failed.exc_value)
    _die(f"thread {name} failed")


def _die(reason: str) -> None:
    """Leave at once: whatever this process would still do, it may not."""
    log.error("leaving", reason=reason)
    os._exit(LOST_LEADERSHIP)
