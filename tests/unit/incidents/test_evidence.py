"""What is enough to interrupt jobs: one trusted witness, or two of the rest."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from remediator.incidents.evidence import (
    AGREE_S,
    before_close,
    has_passed,
    judge,
    of_this_boot,
    overruled,
    witness_of,
)
from remediator.model.incident import Incident, Tier
from remediator.model.signal import Signal

NOW = 1_000.0
BOOT = "boot-now"


def signal(source: Any = "webhook", witness: str = "dcgm-xid", **changes: Any) -> Signal:
    fields: dict[str, Any] = {
        "source": source,
        "node": "gpu-1",
        "boot_id": BOOT if source == "agent" else "",
        "kind": "xid",
        "code": 79,
        "pci": None,
        "seen_at": NOW - 30,
        "received_at": NOW,
        "dedupe": "d",
        "detail": {} if source == "agent" else {"witness": witness},
    }
    return Signal(**(fields | changes))


GAUGE = signal()
HEALTH = signal(witness="dcgm-health", kind="alert", code=None)
COUNTERS = signal(witness="own-counters")
KERNEL = signal("agent")


def enough(first: Signal, *others: Signal, tier: Any = "T0") -> bool:
    return judge(first, others, BOOT, tier, NOW).enough


@pytest.mark.parametrize(
    ("one", "witness"),
    [
        (KERNEL, "kernel-log"),
        (signal("agent", kind="gpu-lost", code=None), "nvml"),
        (signal("agent", kind="hca-gone", code=None), "sysfs"),
        (signal(kind="gpu-lost", code=None), "none"),
        (signal(kind="hca-gone", code=None), "none"),
        (COUNTERS, "own-counters"),
        (HEALTH, "dcgm-health"),
        (GAUGE, "dcgm-xid"),
        (signal("backfill"), "dcgm-xid"),
        (signal(witness="gpud"), "gpud"),
        (signal("condition", kind="gpu-hot", code=None, witness="gpud"), "samples asked for again"),
        (signal(witness=""), "dcgm-xid"),
        (signal(witness="kernel-log"), "dcgm-xid"),
        (signal(detail={"witness": 7}), "dcgm-xid"),
        (signal(kind="alert", code=None), "none"),
        (signal(kind="alert-resolved"), "none"),
        (signal(kind="alert-refused"), "none"),
        (signal("slurm"), "none"),
        (signal(kind="gpu-hot", code=None, witness="own-counters"), "none"),
        (signal("backfill", kind="gpu-hot", code=None, witness="dcgm-health"), "none"),
        (signal("agent", kind="gpu-hot", code=None), "none"),
        (signal("condition", kind="gpu-hot", code=None), "samples asked for again"),
        (signal("condition", kind="straggler", code=None), "its job's ranks"),
        (signal("agent", kind="straggler", code=None), "none"),
        (signal(kind="straggler", code=None, witness="own-counters"), "none"),
        (signal(kind="ib-port-down", code=None, witness="own-counters"), "none"),
        (signal("backfill", kind="ib-port-down", code=None, witness="own-counters"), "none"),
        (signal("agent", kind="ib-port-down", code=None), "sysfs"),
        (signal("condition", kind="ib-port-down", code=None, witness="own-counters"), "own-counters"),
        (signal("condition", kind="ib-port-down", code=None, witness="node-exporter"), "node-exporter"),
        (signal("condition", kind="ib-port-down", code=None, witness="dcgm-xid"), "none"),
        (signal("condition", kind="ib-port-down", code=None, witness=""), "none"),
    ],
)
def test_each_signal_has_its_witness(one: Signal, witness: str) -> None:
    assert witness_of(one) == witness


@pytest.mark.parametrize("one", [KERNEL, COUNTERS])
def test_one_trusted_witness_is_enough(one: Signal) -> None:
    assert enough(one)
    assert enough(GAUGE, one)


def test_what_the_driver_says_when_it_is_asked_is_trusted_too() -> None:
    assert enough(signal("agent", kind="gpu-lost", code=None))


def port(witness: str, device: str = "mlx5_0", kind: str = "ib-flapping") -> Signal:
    detail = {"witness": witness, "labels": {"device": device, "port": "1"}}
    return signal("condition", kind=kind, code=None, detail=detail)


def test_two_exporters_that_see_the_same_port_are_enough() -> None:
    assert enough(port("node-exporter"), port("gpud"), tier="T1")


@pytest.mark.parametrize(
    "other", [port("gpud", "mlx5_1"), port("gpud", kind="ib-errors"), HEALTH, port("node-exporter")]
)
def test_another_port_another_fault_or_a_check_of_a_gpu_says_nothing_of_a_port(other: Signal) -> None:
    assert not enough(port("node-exporter"), other, tier="T1")


@pytest.mark.parametrize("one", [GAUGE, HEALTH, signal(witness="")])
def test_one_of_the_rest_is_not(one: Signal) -> None:
    assert not enough(one)


def test_two_of_the_rest_that_agree_are() -> None:
    assert enough(GAUGE, HEALTH)


@pytest.mark.parametrize("again", [GAUGE, signal("backfill"), signal(witness="other", seen_at=NOW - 10)])
def test_same_witness_by_another_way_is_no_second_one(again: Signal) -> None:
    assert not enough(GAUGE, again, again, again)


@pytest.mark.parametrize(
    "other",
    [
        HEALTH.model_copy(update={"node": "gpu-2"}),
        HEALTH.model_copy(update={"seen_at": NOW - 30 - 61}),
        HEALTH.model_copy(update={"boot_id": "boot-before"}),
        HEALTH.model_copy(update={"pci": "0000:01:00"}),
        HEALTH.model_copy(update={"kind": "alert-resolved"}),
        KERNEL.model_copy(update={"code": 45}),
        KERNEL.model_copy(update={"code": None, "kind": "ib_lost_carrier"}),
        KERNEL.model_copy(update={"boot_id": "boot-before"}),
    ],
    ids=["node", "time", "boot", "gpu", "resolved", "code", "no-fault", "trusted-but-older"],
)
def test_what_does_not_agree_is_no_second_witness(other: Signal) -> None:
    assert not enough(GAUGE.model_copy(update={"pci": "0000:08:00"}), other)


def test_suspicions_may_be_ten_minutes_apart() -> None:
    late = HEALTH.model_copy(update={"seen_at": NOW - 500})
    assert not enough(GAUGE, late, tier="T0")
    assert enough(GAUGE, late, tier="T1")


def test_a_signal_of_an_older_boot_is_never_enough() -> None:
    assert not enough(KERNEL.model_copy(update={"boot_id": "boot-before"}))


@pytest.mark.parametrize(
    ("boot", "age", "counts"),
    [(BOOT, 9e9, True), ("boot-before", 0.0, False), ("", 600.0, True), ("", 601.0, False)],
)
def test_unknown_boot_counts_while_it_is_fresh(boot: str, age: float, counts: bool) -> None:
    one = GAUGE.model_copy(update={"boot_id": boot, "seen_at": NOW - age})
    assert of_this_boot(one, BOOT, NOW) == counts


def test_machine_of_unknown_boot_has_no_evidence() -> None:
    assert not of_this_boot(GAUGE, "", NOW)
    assert not of_this_boot(KERNEL.model_copy(update={"boot_id": ""}), "", NOW)


def test_order_of_the_others_does_not_matter() -> None:
    for others in permutations([HEALTH, GAUGE, signal("backfill")]):
        verdict = judge(GAUGE, others, BOOT, "T0", NOW)
        assert verdict.enough
        assert verdict.sentence == "seen by two witnesses: dcgm-health, dcgm-xid"


def test_two_exporters_that_tell_one_fault_are_two_witnesses() -> None:
    def told(witness: str, kind: str = "gpu-remap-failed") -> Signal:
        return signal("condition", kind=kind, code=None, witness=witness)

    assert enough(told("dcgm-field"), told("gpud"), tier="T1")
    assert not enough(told("dcgm-field"), told("gpud", "gpu-remap-pending"), tier="T1")
    assert enough(told("own-counters"), tier="T1")


def hot(**changes: Any) -> Signal:
    """Prometheus was asked again and says so."""
    fields: dict[str, Any] = {"kind": "gpu-hot", "code": None, "boot_id": BOOT, "detail": {"episode": "e1"}}
    return signal("condition", **(fields | changes))


def test_samples_asked_for_again_are_enough_and_say_nothing_about_another_fault() -> None:
    assert enough(hot(), tier="T1")
    other = signal("condition", kind="ib-port-down", code=None, witness="node-exporter")
    assert not enough(other, hot(), tier="T1")


@pytest.mark.parametrize(("ago", "passed"), [(0.0, False), (300.0, False), (301.0, True), (86_400.0, True)])
def test_heat_that_is_not_told_again_has_passed(ago: float, passed: bool) -> None:
    assert has_passed(hot(received_at=NOW - ago), NOW) == passed
    assert has_passed(hot(kind="ib-flapping", received_at=NOW - ago), NOW) == passed
    assert not has_passed(signal("agent", kind="ib-port-down", code=None, received_at=NOW - ago), NOW)


@pytest.mark.parametrize(
    ("closed_at", "past"), [(None, False), (NOW - 31, False), (NOW - 30, False), (NOW, True)]
)
def test_episode_that_began_before_the_close_is_past(closed_at: float | None, past: bool) -> None:
    assert before_close(GAUGE, closed_at) == past


def overridden(tier: Tier) -> Incident:
    return Incident(
        id="i1", key="k", node="gpu-1", node_uid="u", boot_id=BOOT, tier=tier, rule="r", cause="c",
        plan="replace", state="overridden", fault_at=NOW - 60, opened_at=NOW - 60, closed_at=NOW,
    )  # fmt: skip


OF_GPU_3 = signal("agent", pci="0000:18:00")


@pytest.mark.parametrize(
    ("again", "boot", "same"),
    [
        (signal("agent", seen_at=NOW + 86_400, pci="0000:18:00"), BOOT, True),
        (signal("agent", seen_at=NOW + 86_400), BOOT, True),
        (signal(seen_at=NOW + 86_400), BOOT, True),
        (signal("agent", seen_at=NOW + 86_400, pci="0000:9a:00"), BOOT, False),
        (signal("agent", seen_at=NOW + 1, code=64), BOOT, False),
        (signal("agent", seen_at=NOW + 1, boot_id="next"), "next", False),
    ],
)
def test_a_final_fault_a_person_overrode_counts_no_more_in_its_boot(
    again: Signal, boot: str, same: bool
) -> None:
    assert overruled(again, [OF_GPU_3], overridden("T0"), boot) == same


@pytest.mark.parametrize("tier", ["T1", "T2"])
def test_a_fault_that_may_pass_counts_again_after_its_window(tier: Tier) -> None:
    for late, same in ((0.0, True), (AGREE_S[tier], True), (AGREE_S[tier] + 1, False)):
        again = signal("agent", seen_at=NOW + late)
        assert overruled(again, [OF_GPU_3], overridden(tier), BOOT) == same


def test_heat_a_person_overrode_counts_no_more_for_as_long_as_its_alert_goes_on() -> None:
    for late in (0.0, 86_400.0):
        assert overruled(hot(seen_at=NOW + late), [hot()], overridden("T1"), BOOT)
    anew = hot(seen_at=NOW + 86_400, detail={"episode": "e2"})
    assert not overruled(anew, [hot()], overridden("T1"), BOOT)
    pushed = signal("agent", kind="ib-port-down", code=None, seen_at=NOW + 86_400)
    assert not overruled(pushed, [OF_GPU_3], overridden("T1"), BOOT)
