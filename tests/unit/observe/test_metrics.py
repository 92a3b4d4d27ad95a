"""The page that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from remediator.model import ranks
from remediator.model.incident import COMMON_CAUSE
from remediator.observe import metrics as module
from remediator.observe.metrics import STEPS, Metrics
from remediator.signals import samples
from remediator.workflow.journal import NAMES
from remediator.workflow.plans import PLANS
from remediator.workflow.steps import STEPS as ALL_STEPS


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_all_known_series_are_there_from_the_start_at_zero() -> None:
    metrics = Metrics()
    assert value(metrics, "remediator_signals_received_total", source="agent", result="accepted") == 0
    assert value(metrics, "remediator_decisions_total", plan="replace") == 0
    for step in STEPS:
        assert value(metrics, "remediator_steps_total", step=step, outcome="done") == 0
        assert value(metrics, "remediator_step_duration_seconds_count", step=step) == 0
    for name in ("incidents_open", "leader", "epoch", "audit_records_total", "intake_batch_size_count"):
        assert value(metrics, f"remediator_{name}") == 0, name


def test_every_step_outcome_and_plan_there_is_starts_at_zero() -> None:
    assert set(module.STEPS) == set(ALL_STEPS)
    assert set(module.OUTCOMES) == set(NAMES.values())
    assert set(module.PLANS) == {*PLANS, COMMON_CAUSE}  # the one plan without steps


@pytest.mark.parametrize(
    ("name", "reasons", "outcome", "reason"),
    [("ranks_compared", module.RANKS, ranks.Outcome, ranks.Reason),
     ("thresholds_asked", module.THRESHOLDS, samples.Outcome, samples.Reason)],
)  # fmt: skip
def test_every_answer_there_may_be_starts_at_zero_with_its_reason(
    name: str, reasons: Mapping[str, Iterable[str]], outcome: object, reason: object
) -> None:
    """What first appears as 1 has not grown: Prometheus' increase() leaves it out."""
    metrics = Metrics()
    assert set(reasons) == set(get_args(outcome))
    pairs = [(what, why) for what, whys in reasons.items() for why in whys]
    assert {why for _, why in pairs} == set(get_args(reason))
    shown = [
        sample.labels
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"remediator_{name}_total"
    ]
    assert sorted((one["outcome"], one["reason"]) for one in shown) == sorted(pairs)
    assert {value(metrics, f"remediator_{name}_total", outcome=what, reason=why) for what, why in pairs} == {
        0
    }


def test_each_call_moves_its_own_series() -> None:
    metrics = Metrics()
    metrics.signals("agent", "accepted", 3)
    metrics.incidents_open(2)
    metrics.decided("replace")
    metrics.step_attempted("drain-slurm", "done")
    metrics.step_ended("drain-slurm", 0.02)
    metrics.requeued()
    metrics.audited(4)
    metrics.leadership(leading=True, epoch=7)
    metrics.watch_age("nodes", lambda: 1.5)
    metrics.intake_committed(20, 0.003)
    assert value(metrics, "remediator_signals_received_total", source="agent", result="accepted") == 3
    assert value(metrics, "remediator_incidents_open") == 2
    assert value(metrics, "remediator_decisions_total", plan="replace") == 1
    assert value(metrics, "remediator_steps_total", step="drain-slurm", outcome="done") == 1
    assert value(metrics, "remediator_step_duration_seconds_sum", step="drain-slurm") == 0.02
    assert value(metrics, "remediator_jobs_requeued_total") == 1
    assert value(metrics, "remediator_audit_records_total") == 4
    assert (value(metrics, "remediator_leader"), value(metrics, "remediator_epoch")) == (1, 7)
    assert value(metrics, "remediator_watch_last_event_age_seconds", resource="nodes") == 1.5
    assert value(metrics, "remediator_intake_batch_size_sum") == 20
    assert value(metrics, "remediator_intake_commit_seconds_bucket", le="0.005") == 1


def test_labels_stay_bounded() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.decided(f"made-up-{number}")
    families = {one.name: one for one in text_string_to_metric_families(metrics.render().decode())}
    samples = families["remediator_decisions"].samples
    assert len(samples) <= 41
    assert value(metrics, "remediator_decisions_total", plan="other") is not None


def test_page_parses_and_every_name_has_our_prefix() -> None:
    families = list(text_string_to_metric_families(Metrics().render().decode()))
    assert families
    assert [one.name for one in families if not one.name.startswith(("remediator_", "process_"))] == []
