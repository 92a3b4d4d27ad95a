"""Numbers for Prometheus: prefix `remediator_`, base units, bounded labels, all present from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from remediator import __version__

# The `_created` series double the page and say nothing that the process start time does not.
disable_created_metrics()  # type: ignore[no-untyped-call]

PREFIX = "remediator_"
MOST_VALUES = 40
SOURCES = ("agent", "webhook", "backfill", "condition", "slurm")
DOUBTS = (
    "no-node",
    "no-pool",
    "unknown-code",
    "condition-unknown",
    "rules-contradict",
    "older-boot",
    "another-machine",
    "one-witness",
    "internal-error",
    "alert-shape",
    "alert-node",
    "alert-no-node",
    "alert-fault",
)
RANKS = {
    "works": ("", "few-nodes"),
    "stalled": ("",),
    "straggler": ("",),
    "unknown": ("gpus", "unread", "idle", "short", "waits-unread", "shape", "no-answer"),
}
"""What a comparison of a job's ranks says, and the reasons it may give."""
THRESHOLDS = {
    "holds": ("",),
    "passed": ("",),
    "unknown": (
        "absent",
        "shape",
        "implausible",
        "few",
        "stale",
        "gap",
        "short",
        "clock",
        "conflict",
        "frozen",
        "unit",
        "limit",
        "siblings",
        "identity",
        "backwards",
        "boot",
        "another",
        "no-answer",
        "no-prometheus",
    ),
}
"""The same of an answer about a threshold."""
RESULTS = ("accepted", "duplicate", "malformed", "refused", "unauthenticated", "unavailable")
PLANS = (
    "replace",
    "move-jobs",
    "drain-only",
    "validate",
    "validate-only",
    "restart-job",
    "hold-job",
    "give-back",
    "common-cause",
)
STEPS = (
    "admit",
    "drain-slurm",
    "fence-node",
    "survey",
    "await-save",
    "hold-place",
    "release-jobs",
    "hold-jobs",
    "restart-job",
    "start-jobs",
    "prove-resume",
    "free-place",
    "count-loss",
    "claim-spare",
    "validate-spare",
    "await-empty",
    "await-idle",
    "validate-node",
    "force-down",
    "evict-pods",
    "detach-node",
    "admit-spare",
    "rejoin-slurm",
    "accept-node",
    "attach-node",
    "unfence-node",
    "resume-slurm",
    "close",
    "undo-fence",
    "undo-drain",
    "undo-place",
    "undo-hold",
    "undo-claim",
    "yield",
)
OUTCOMES = ("done", "wait", "retry", "ambiguous", "hold", "overridden")
STEP_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 180, 300, 900, 1800)
ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

Metric = TypeVar("Metric", Counter, Gauge, Histogram)


class _Bounded(Generic[Metric]):
    """A labelled metric that starts at zero for all known values and calls values beyond 40 `other`."""

    def __init__(self, metric: Metric, *known: tuple[str, ...]) -> None:
        self._metric: Metric = metric
        self._seen = [set(values) for values in known]
        for values in product(*known):
            metric.labels(*values)

    def at(self, *values: str) -> Metric:
        """The child metric of these label values."""
        return self._metric.labels(*map(self._bound, self._seen, values))

    @staticmethod
    def _bound(seen: set[str], value: str) -> str:
        if value not in seen and len(seen) >= MOST_VALUES:
            return "other"
        seen.add(value)
        return value


def _counter(
    registry: CollectorRegistry, name: str, text: str, **known: tuple[str, ...]
) -> _Bounded[Counter]:
    return _Bounded(Counter(PREFIX + name, text, list(known), registry=registry), *known.values())


def _answers(
    registry: CollectorRegistry, name: str, text: str, reasons: Mapping[str, Iterable[str]]
) -> _Bounded[Counter]:
    """A counter by outcome and by the reason for it, with each pair that there may be and no other."""
    metric = Counter(PREFIX + name, text, ["outcome", "reason"], registry=registry)
    found = _Bounded(metric, (), ())
    for outcome, why in reasons.items():
        for reason in why:
            found.at(outcome, reason)
    return found


def _of_signals(registry: CollectorRegistry) -> tuple[_Bounded[Counter], _Bounded[Counter]]:
    text = "Signals, or for results that are not accepted or duplicate: requests."
    received = _counter(registry, "signals_received_total", text, source=SOURCES, result=RESULTS)
    text = "Signals that led to nothing because something is not known; reason says what."
    return received, _counter(registry, "signals_unknown_total", text, reason=DOUBTS)


def _of_thresholds(registry: CollectorRegistry) -> tuple[_Bounded[Counter], Counter]:
    answers = _answers(
        registry,
        "thresholds_asked_total",
        "Answers of Prometheus about thresholds that an alert told of; reason says why one is unknown.",
        THRESHOLDS,
    )
    text = "Samples dropped because no sensor can have said so."
    return answers, Counter(PREFIX + "implausible_samples_total", text, registry=registry)


def _of_ranks(registry: CollectorRegistry) -> _Bounded[Counter]:
    return _answers(
        registry,
        "ranks_compared_total",
        "Running jobs compared with their past and their own ranks; reason says why one is unknown.",
        RANKS,
    )


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(PREFIX + name, text, registry=registry)


class Metrics:
    """All numbers of one process; made once by `run` and handed to the stages."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        Info(PREFIX + "build", "Version of the service.", registry=own).info({"version": __version__})
        self._signals, self._doubts = _of_signals(own)
        self._incidents = Gauge(PREFIX + "incidents_open", "Incidents not closed yet.", registry=own)
        self._waiting = _gauge(own, "signals_waiting", "Signals that are judged later, with companions.")
        self._decisions = _counter(own, "decisions_total", "Incidents opened, by plan.", plan=PLANS)
        self._steps = _counter(own, "steps_total", "Attempts of steps.", step=STEPS, outcome=OUTCOMES)
        self._step_seconds = _Bounded(
            Histogram(
                PREFIX + "step_duration_seconds",
                "Time from a step's first intent to its end.",
                ["step"],
                buckets=STEP_BUCKETS,
                registry=own,
            ),
            STEPS,
        )
        self._requeues = Counter(PREFIX + "jobs_requeued_total", "Job runs released.", registry=own)
        self._records = Counter(PREFIX + "audit_records_total", "Audit records written.", registry=own)
        self._leader = Gauge(PREFIX + "leader", "1 while this process decides.", registry=own)
        self._dry_run = Gauge(PREFIX + "dry_run", "1 while nothing is written outside.", registry=own)
        self._frozen = _gauge(own, "frozen", "1 while a mass outage keeps everything from being written.")
        self._policy_refused = _gauge(own, "policy_refused", "1 while the site's changed overlay is refused.")
        self._epoch = Gauge(PREFIX + "epoch", "Leadership epoch this process knows.", registry=own)
        self._watch_age = Gauge(
            PREFIX + "watch_last_event_age_seconds",
            "Time since a watch last heard from its server.",
            ["resource"],
            registry=own,
        )
        self._agents = Gauge(PREFIX + "agents_heard", "Agents heard within 30 s.", registry=own)
        self._asked = _counter(
            own,
            "backfill_requests_total",
            "Questions to sources of alerts.",
            source=("alertmanager", "prometheus"),
            outcome=("ok", "error"),
        )
        self._thresholds, self._implausible = _of_thresholds(own)
        self._ranks = _of_ranks(own)
        self._conditions = _counter(
            own,
            "node_conditions_total",
            "Faults that other tools wrote on nodes; types of conditions that nobody knows.",
            outcome=("evidence", "recorded", "again", "unknown-type"),
        )
        self._batch = Histogram(
            PREFIX + "intake_batch_size", "Signals per commit.", buckets=ROW_BUCKETS, registry=own
        )
        self._commit = Histogram(
            PREFIX + "intake_commit_seconds", "Time of one commit.", buckets=COMMIT_BUCKETS, registry=own
        )

    def signals(self, source: str, result: str, count: int = 1) -> None:
        """Count signals `accepted` (committed) or `duplicate` among them, or requests turned away."""
        self._signals.at(source, result).inc(count)

    def doubted(self, reason: str, count: int = 1) -> None:
        """Count signals that led to nothing for this reason."""
        self._doubts.at(reason).inc(count)

    def incidents_open(self, count: int) -> None:
        """Set the number of open incidents."""
        self._incidents.set(count)

    def signals_waiting(self, count: int) -> None:
        """Set the number of signals that wait for their companions."""
        self._waiting.set(count)

    def decided(self, plan: str) -> None:
        """Count one decision that opened an incident."""
        self._decisions.at(plan).inc()

    def step_attempted(self, step: str, outcome: str) -> None:
        """Count one attempt of a step by its outcome."""
        self._steps.at(step, outcome).inc()

    def step_ended(self, step: str, seconds: float) -> None:
        """Record the time from a step's first intent to its end."""
        self._step_seconds.at(step).observe(seconds)

    def requeued(self) -> None:
        """Count one job run released."""
        self._requeues.inc()

    def audited(self, count: int = 1) -> None:
        """Count audit records written."""
        self._records.inc(count)

    def leadership(self, leading: bool, epoch: int) -> None:
        """Show whether this process decides, and the epoch it knows."""
        self._leader.set(leading)
        self._epoch.set(epoch)

    def dry_run(self, on: bool) -> None:
        """Show whether everything is only decided and recorded."""
        self._dry_run.set(on)

    def policy_refused(self, refused: bool) -> None:
        """Show whether the overlay that is there now could not be taken."""
        self._policy_refused.set(refused)

    def frozen(self, is_frozen: Callable[[], bool]) -> None:
        """Show whether a mass outage keeps everything from being written; asked at each scrape."""
        self._frozen.set_function(is_frozen)

    def watch_age(self, resource: str, age: Callable[[], float]) -> None:
        """Show the seconds since a watch last heard from its server; `age` is asked at each scrape."""
        self._watch_age.labels(resource).set_function(age)

    def agents_heard(self, count: Callable[[], int]) -> None:
        """Show how many agents were heard of late; `count` is asked at each scrape."""
        self._agents.set_function(count)

    def source_asked(self, source: str, outcome: str) -> None:
        """Count one question of the backfill: `ok` or `error`."""
        self._asked.at(source, outcome).inc()

    def threshold_asked(self, outcome: str, reason: str) -> None:
        """Count one answer about a threshold: it `holds`, has `passed`, or is `unknown` for a reason."""
        self._thresholds.at(outcome, reason).inc()

    def implausible(self, samples: int) -> None:
        """Count samples that were dropped."""
        self._implausible.inc(samples)

    def ranks_compared(self, outcome: str, reason: str) -> None:
        """Count one look at a running job: it works, is stalled, has a straggler, or is unknown."""
        self._ranks.at(outcome, reason).inc()

    def condition_seen(self, outcome: str, count: int = 1) -> None:
        """Count what a look at the conditions of nodes found: `again` is a fault that had gone."""
        self._conditions.at(outcome).inc(count)

    def intake_committed(self, rows: int, seconds: float) -> None:
        """Record one commit of the intake: its rows and how long it took."""
        self._batch.observe(rows)
        self._commit.observe(seconds)

    def render(self) -> bytes:
        """All numbers in Prometheus' text format."""
        return generate_latest(self.registry)
