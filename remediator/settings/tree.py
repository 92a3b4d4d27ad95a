"""The settings as frozen types; the text under each field is its reference documentation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from remediator.guard import MARGIN_S, MAX_DEADLINE_S
from remediator.model.faults import LOOKS_BACK_S
from remediator.model.machine import StageByTier, Stages
from remediator.model.timing import Timing
from remediator.settings.checks import (
    AbsolutePath,
    Dns,
    HttpUrl,
    LabelKey,
    LabelName,
    LabelValue,
    ServerUrl,
    SqliteUrl,
)
from remediator.settings.limits import GuardSettings, MachineLimits
from remediator.settings.section import Section

NoSpare = Literal["go-on", "wait", "page"]


class Cluster(Section):
    """Which cluster this is."""

    name: Dns = Field(examples=["lab"])
    """Name of the cluster in records, metrics and messages; part of every job run's key."""


class Store(Section):
    """Where incidents, steps and the audit record are kept."""

    url: SqliteUrl = "sqlite:////var/lib/remediator/remediator.db"
    """SQLite file (sqlite:///PATH) on a local disk, never on NFS."""


class Http(Section):
    """The one HTTP door: agent pushes, metrics, health."""

    host: str = Field(default="0.0.0.0", min_length=1)  # noqa: S104 - agents reach a pod from outside it
    """Address to listen on."""

    port: int = Field(default=8080, ge=0, le=65535)
    """TCP port to listen on; 0 takes a free one."""

    audience: str = Field(default="remediator", min_length=1)
    """Audience that an agent's projected token must be issued for."""

    agent_account: str = Field(
        default="system:serviceaccount:remediator:remediator-agent",
        pattern=r"^system:serviceaccount:[-a-z0-9]+:[-a-z0-9.]+$",
    )
    """The only user name whose pushes are taken: system:serviceaccount:NAMESPACE:NAME."""

    body_cap_bytes: int = Field(default=1024 * 1024, ge=1024, le=16 * 1024 * 1024)
    """Longest request body taken, in bytes; longer ones are refused while they are read."""


class Webhook(Section):
    """The door for Alertmanager, and which labels of an alert say what."""

    token_paths: tuple[AbsolutePath, ...] = Field(default=(), max_length=2)
    """Files of the bearer tokens that are let in: one, or two while it is renewed; empty lets nobody in."""

    body_cap_bytes: int = Field(default=5 * 1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    """Longest notification taken, in bytes; what a longer one held comes by backfill."""

    alerts_cap: int = Field(default=10_000, ge=1, le=100_000)
    """Most alerts taken in one notification, and in one answer to the backfill."""

    node_labels: tuple[LabelName, ...] = Field(
        default=("node", "nodename", "kubernetes_node", "hostname", "Hostname", "instance"), min_length=1
    )
    """Labels that may name the node; the first one present counts, without its port if it is `instance`."""

    code_labels: tuple[LabelName, ...] = Field(default=("xid", "code"), min_length=1)
    """Labels that may hold the XID; the first one present counts."""

    fault_label: LabelName = "fault"
    """Label by which an alert without a code names its fault, as the rules in deploy/rules do."""

    boot_label: LabelName = "boot_id"
    """Label that says of which boot of the node an alert speaks."""

    witness_label: LabelName = "witness"
    """Label that says what an alert was measured by: own-counters, dcgm-health or dcgm-xid (the default)."""

    replica_labels: tuple[LabelName, ...] = ("prometheus", "prometheus_replica", "replica")
    """Labels that are no part of an alert's identity: all that Prometheus' external_labels add."""

    looks_back_s: float = Field(default=LOOKS_BACK_S, ge=0, le=86_400)
    """Seconds that rules of alerts look back. One that names no boot and began sooner after its node
    registered may tell of the machine that bore the name before: it is only recorded."""

    backfill_s: float = Field(default=60.0, ge=6, le=3600)
    """Seconds between asking Alertmanager and Prometheus what the webhook may have missed."""


class Alertmanager(Section):
    """Where missed alerts are asked for first."""

    url: ServerUrl | None = None
    """Address of Alertmanager; null does not ask it."""

    token_path: AbsolutePath | None = None
    """File that holds a bearer token for it; read at every request."""

    deadline_s: float = Field(default=5.0, ge=0.5, le=30)
    """Seconds one request may take."""


class Prometheus(Section):
    """Where firing alerts are asked for that Alertmanager does not know."""

    url: ServerUrl | None = None
    """Address of Prometheus; null does not ask it."""

    token_path: AbsolutePath | None = None
    """File that holds a bearer token for it; read at every request."""

    deadline_s: float = Field(default=5.0, ge=0.5, le=30)
    """Seconds one request may take."""


class Slurm(Section):
    """How Slurm is reached and how long jobs may take to save."""

    url: HttpUrl = Field(examples=["http://slurm-restapi.slurm:6820"])
    """Address of slurmrestd."""

    user: str = Field(default="slurm", pattern=r"^[a-z_][-a-z0-9_.]{0,31}$")
    """Slurm user that the token belongs to."""

    token_path: AbsolutePath = Path("/var/run/secrets/slurm/token")
    """File that holds the Slurm JWT; read again whenever it changes."""

    backend: Literal["auto", "rest", "pyslurm"] = "auto"
    """Way to Slurm: REST, the pyslurm worker, or auto: REST, and a named worker for what REST cannot do."""

    pyslurm_socket: AbsolutePath | None = None
    """Unix socket at which the pyslurm worker, a container beside the controller, listens."""

    poll_busy_s: float = Field(default=2.0, ge=0.5, le=60)
    """Seconds between looks at the Slurm nodes under treatment, to see that their DRAIN still stands."""

    poll_idle_s: float = Field(default=30.0, ge=1, le=600)
    """Seconds between looks at Slurm's settings, which tell whether it answers and when it started."""

    job_ends_s: float = Field(default=30.0, ge=2, le=120)
    """Seconds between looks at Slurm's job list for jobs that crashed; half of MinJobAge if that is less."""

    @model_validator(mode="after")
    def _a_worker_is_named(self) -> Self:
        if self.backend == "pyslurm" and self.pyslurm_socket is None:
            raise ValueError("backend pyslurm needs a worker; write pyslurm_socket: /run/pyslurm/worker.sock")
        return self


class Kubernetes(Section):
    """How the Kubernetes API is reached and where leadership is shown."""

    kubeconfig: AbsolutePath | None = None
    """Kubeconfig file; null uses the pod's own ServiceAccount."""

    lease_namespace: Dns = "remediator"
    """Namespace of the Lease that mirrors leadership."""

    lease_name: Dns = "remediator"
    """Name of the Lease that mirrors leadership."""


class Pool(Section):
    """A set of nodes the service may act on."""

    node_selector: dict[LabelKey, LabelValue] = Field(
        min_length=1, examples=[{"nvidia.com/gpu.present": "true"}]
    )
    """Labels a node must carry, all of them, to be in this pool; a node in no pool is never written."""

    stage: StageByTier = Stages()
    """observe, drain-only, move-jobs or full (replaces): one word, or by tier {T0: full, T1: drain-only}."""

    timing: Timing | None = None
    """When jobs leave a node on evidence that is not final: now, at-checkpoint or at-job-end; null takes each
    rule's own. The node is drained and fenced at once in any case; T0, and rules that say now, never wait."""

    checkpoint_glob: str | None = None
    """Where the pool's jobs save: a pattern like /shared/{job}/step_*, each match of which is one checkpoint.
    The same text stands in `checkpoint_globs` of the agents that look. null: nobody knows who has saved."""

    when_no_spare: NoSpare | None = None
    """This pool's own answer to `spares.when_none`; null takes that."""

    hold_until_fenced: bool = False
    """Hold a job that lost a node to DOWN (`scontrol hold`) until its old processes are proven gone, however
    long that takes. Off: Slurm starts it 121 s later, and a machine that only froze may go on writing."""

    restart_failed_jobs: bool = False
    """Requeue a batch job that exits with an error or by a signal. Off by default: an exit code is the job's
    own word, and jobs that wait for its failure start within a second. A job that crashes on a node whose
    jobs are being moved is requeued in any case."""


Witness = Literal["user", "work"]


class Crashes(Section):
    """Batch jobs that crash: how often one is restarted, and how long a crash counts against a node."""

    restarts: int = Field(default=3, ge=0, le=100)
    """Restarts of one job within `window_days`; the next crash leaves it failed, and its owner is told."""

    window_days: float = Field(default=7.0, gt=0, le=90)
    """Days for which crashes are counted: one job that crashes again on a node and nowhere else tests it."""

    witness_h: float = Field(default=24.0, gt=0, le=2160)
    """Hours within which crashes of different witnesses test a node, if its pool does not crash as much."""

    witness: Witness = "user"
    """Who is another witness: another `user`, or any other `work` (user and job name), for clusters where one
    user submits everything."""


class Stalls(Section):
    """Running jobs, compared with their own past and their own ranks by tensor activity; needs
    `prometheus.url`.
    """

    flat_s: float | None = Field(default=1800.0, ge=600, le=10_800)
    """A stall: so many seconds without tensor work on any GPU of a job that worked before, and twice its own
    longest pause. null compares no jobs."""


class Requeues(Section):
    """When a job is held that may itself be what makes machines fail."""

    per_job: int | None = Field(default=3, ge=1, le=100)
    """Machines that may fail under one job within `window_h`, each soon after it started there; off the next
    one it is requeued held, and its owner told. null holds none."""

    window_h: float = Field(default=24.0, gt=0, le=2160)
    """Hours for which such a failure counts."""

    short_run_s: float = Field(default=3600.0, gt=0, le=604_800)
    """Seconds; a run that has computed for longer speaks for its job, and its end is not counted."""


class Share(Section):
    """A number of nodes that grows with the pool."""

    at_least: int = Field(default=1, ge=1, le=100_000)
    """Nodes allowed at once, however small the pool is."""

    percent: float = Field(default=0.0, ge=0, le=100)
    """Nodes allowed at once, in percent of the pool; the larger of the two counts."""

    def of(self, nodes: int) -> int:
        """Nodes allowed at once in a pool of `nodes`."""
        return max(self.at_least, math.floor(nodes * self.percent / 100))


class Limit(Share):
    """How many nodes of a pool one kind of work may be on."""

    percent: float = Field(default=2.0, ge=0, le=100)
    """Nodes allowed at once, in percent of the pool; the larger of the two counts."""

    per_hour: int | None = Field(default=10, ge=1, le=100_000)
    """Nodes allowed in any hour; null sets no such limit."""


class KnownBad(Limit):
    """As `Limit`, but for nodes that must not take jobs: never less than two."""

    at_least: int = Field(default=2, ge=2, le=100_000)
    """Nodes allowed at once, however small the pool is."""

    percent: float = Field(default=10.0, ge=0, le=100)
    """Nodes allowed at once, in percent of the pool; the larger of the two counts."""

    per_hour: int | None = Field(default=None, ge=1, le=100_000)
    """Nodes allowed in any hour; null sets no such limit."""


class BreakerSettings(Share):
    """When so many nodes fall ill at once that something they share is at fault."""

    at_least: int = Field(default=3, ge=1, le=100_000)
    """Newly sick nodes that open no breaker, however small the pool is."""

    percent: float = Field(default=5.0, ge=0, le=100)
    """Newly sick nodes that open no breaker, in percent of the pool; the larger of the two counts."""

    window_s: float = Field(default=600.0, ge=60, le=86_400)
    """Seconds for which a node counts as newly sick."""


class Budgets(Section):
    """How many nodes of each pool may be acted on before the next one has to wait."""

    enabled: bool = True
    """false lifts every budget; for benchmarks and laboratories only."""

    drain_t0: KnownBad = KnownBad()
    """Nodes drained and fenced on final evidence (T0), until their incidents close."""

    drain: Limit = Limit()
    """Nodes of the other tiers drained and fenced, until their incidents close."""

    release: Limit = Limit()
    """Nodes whose jobs are asked to save and restart, until they run again."""

    evict: Limit = Limit()
    """Nodes whose pods are evicted, until they are empty."""

    replace: Limit = Limit()
    """Nodes that are replaced, from the claim of a spare until their incidents close."""

    breaker: BreakerSettings = BreakerSettings()
    """With more newly sick nodes in a pool than this, only T0 drains and giving back go on there."""

    guard: GuardSettings = GuardSettings()
    """When the same fault on many nodes is one cause, which they share."""

    machine: MachineLimits = MachineLimits()
    """What is remembered of one machine, by its providerID or UID, and what comes of it."""


class Leadership(Section):
    """Which replica decides."""

    lease_s: float = Field(default=10.0, ge=1, le=120)
    """Seconds leadership lasts without being renewed."""

    renew_s: float = Field(default=2.0, ge=0.1, le=60)
    """Seconds between renewals."""

    @model_validator(mode="after")
    def _lease_covers_a_call(self) -> Self:
        # A lease that ends before one renewal and one outside call refuses every call.
        if self.lease_s <= self.renew_s + MAX_DEADLINE_S + MARGIN_S:
            need = MAX_DEADLINE_S + MARGIN_S
            raise ValueError(
                f"lease_s must be more than renew_s + {need:.0f} s, the time one outside call may need"
            )
        return self


class Spares(Section):
    """What stands ready to replace a node: nodes with label and taint remediator.dev/spare."""

    when_none: NoSpare = "wait"
    """Without a spare: go-on (move the jobs, replace nothing), wait for one, or page somebody."""


class Acceptance(Section):
    """The test a node has to pass before it takes jobs: a spare that comes in, a node that is given back."""

    image: str | None = Field(default=None, min_length=1)
    """Image of the test's pod; null runs none: Ready and all GPUs healthy is then enough."""

    command: tuple[str, ...] = ()
    """Command of the test; exit status 0 is a pass. Empty runs the image's own."""

    namespace: Dns = "remediator"
    """Namespace the pod is made in: the controller's own."""

    deadline_s: int = Field(default=300, ge=10, le=3600)
    """Seconds the test may take; one that has not ended by then has failed."""

    host_paths: tuple[AbsolutePath, ...] = ()
    """Folders of the node shown to the test, read-only, under the same path."""


class Policy(Section):
    """The rules, besides those that come with the service."""

    overlay: AbsolutePath | None = None
    """File, or folder of *.yaml files, whose rules are merged by name over those that come with the service;
    `remediator policy check` reads it as the service does."""


class Notify(Section):
    """How people are told, besides the log."""

    file: AbsolutePath | None = None
    """File that messages are appended to as JSON lines; null writes them to the log only."""


class Log(Section):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written to standard output."""


class Settings(Section):
    """All settings of the service."""

    cluster: Cluster
    """Which cluster this is."""

    store: Store = Store()
    """Where incidents, steps and the audit record are kept."""

    http: Http = Http()
    """The one HTTP door: agent pushes, metrics, health."""

    webhook: Webhook = Webhook()
    """The door for Alertmanager, and which labels of an alert say what."""

    alertmanager: Alertmanager = Alertmanager()
    """Where missed alerts are asked for first."""

    prometheus: Prometheus = Prometheus()
    """Where firing alerts are asked for that Alertmanager does not know."""

    slurm: Slurm
    """How Slurm is reached and how long jobs may take to save."""

    kubernetes: Kubernetes = Kubernetes()
    """How the Kubernetes API is reached and where leadership is shown."""

    pools: dict[Dns, Pool] = Field(min_length=1, examples=[["gpu"]])
    """Sets of nodes the service may act on, by name."""

    dry_run: bool = False
    """true decides and records everything as "would ..." and writes nothing to Slurm or Kubernetes."""

    crashes: Crashes = Crashes()
    """Batch jobs that crash: how often one is restarted, and how long a crash counts against a node."""

    stalls: Stalls = Stalls()
    """Running jobs, compared with their own past and their own ranks."""

    requeues: Requeues = Requeues()
    """When a job is held that may itself be what makes machines fail."""

    budgets: Budgets = Budgets()
    """How many nodes may be acted on before a person has to look."""

    leadership: Leadership = Leadership()
    """Which replica decides."""

    spares: Spares = Spares()
    """What stands ready to replace a node."""

    acceptance: Acceptance = Acceptance()
    """The test a node has to pass before it takes jobs."""

    no_replace_label: LabelKey = "remediator.dev/no-replace"
    """Label on a pod or node that forbids cordon, eviction, detach and replacement."""

    maintenance_soon_s: float = Field(default=3600.0, ge=0, le=604_800)
    """A maintenance reservation in Slurm forbids the same from this many seconds before it begins."""

    policy: Policy = Policy()
    """The rules, besides those that come with the service."""

    notify: Notify = Notify()
    """How people are told, besides the log."""

    log: Log = Log()
    """What is logged."""
