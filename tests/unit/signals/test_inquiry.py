"""What Prometheus is asked about one GPU, and what its samples make of a threshold."""

from __future__ import annotations

import pytest

from remediator.errors import Retry
from remediator.model import faults
from remediator.signals import fabric
from remediator.signals.inquiry import Inquiry
from remediator.signals.samples import Answer
from remediator.signals.thresholds import QUESTIONS
from tests.fakes.prometheus import AGENT, FakePrometheus, steady

NOW = 1_000_000.0
GPU = {"gpu": "3", "uuid": "GPU-a", "pci": "0000:08:00"}
BY_AGENT = {**AGENT, **GPU, "node": "gpu-1", "boot_id": "boot-aaaa"}
BY_DCGM = {"Hostname": "gpu-1", "gpu": "3", "UUID": "GPU-a", "pci_bus_id": "00000000:08:00.0"}
BY_GPUD = {"node": "gpu-1", "instance": "10.0.0.1:15132", "uuid": "GPU-a"}
TEMPERATURE = "remediator_gpu_temperature_celsius"


@pytest.fixture
def prometheus() -> FakePrometheus:
    found = FakePrometheus()
    found.limits(NOW - 3)
    return found


def ask(prometheus: FakePrometheus, fault: str = faults.GPU_HOT, labels: dict[str, str] = BY_AGENT) -> Answer:
    return Inquiry(prometheus, NOW).answer(fault, labels)


def told(answer: Answer) -> tuple[str, str, float | None]:
    return answer.outcome, answer.reason, answer.value


def test_every_fault_that_is_asked_for_again_has_its_question() -> None:
    assert set(QUESTIONS) == faults.THERMAL
    assert set(fabric.QUESTIONS) == faults.COUNTED


@pytest.mark.parametrize(
    ("metric", "series", "alert"),
    [
        (TEMPERATURE, {**AGENT, **GPU}, BY_AGENT),
        ("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, BY_DCGM),
        ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", {**BY_DCGM, "pod": "x"}, BY_DCGM),
        ("DCGM_FI_DEV_GPU_TEMP", {"nodename": "gpu-1", "gpu": "3"}, {"nodename": "gpu-1", "gpu": "3"}),
        ("accelerator_nvidia_temperature_current_celsius", BY_GPUD, BY_GPUD),
        # the same GPU, told by another exporter than the alert's
        ("accelerator_nvidia_temperature_current_celsius", BY_GPUD, BY_DCGM),
        ("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, BY_AGENT),
        (TEMPERATURE, {**AGENT, **GPU}, BY_DCGM),
    ],
)
def test_a_gpu_is_found_under_every_name(
    metric: str, series: dict[str, str], alert: dict[str, str], prometheus: FakePrometheus
) -> None:
    prometheus.put(metric, series, steady(79, NOW))
    assert told(ask(prometheus, labels=alert)) == ("holds", "", 79)


def test_the_heat_of_another_gpu_says_nothing_about_this_one(prometheus: FakePrometheus) -> None:
    prometheus.put(TEMPERATURE, {**AGENT, "gpu": "4", "uuid": "GPU-b"}, steady(90, NOW))
    prometheus.put(
        "DCGM_FI_DEV_GPU_TEMP", {"Hostname": "gpu-1", "gpu": "3", "UUID": "GPU-b"}, steady(90, NOW)
    )
    assert told(ask(prometheus)) == ("unknown", "absent", None)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"node": "gpu-1"},
        {"gpu": "3"},
        {"node": 'gpu-1"} or vector(99) or {x="', "gpu": "3"},
        {"UUID": "GPU-a|GPU-b"},
        {"UUID": ".*"},
        {"uuid": "GPU\\"},
        {"uuid": "GPU-a\n"},
        {"uuid": "x" * 300},
        {"left_out": "longer than 4096 characters"},
    ],
    ids=range(10),
)
def test_an_alert_that_names_no_gpu_is_never_put_into_a_query(
    labels: dict[str, str], prometheus: FakePrometheus
) -> None:
    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(90, NOW))
    assert told(ask(prometheus, labels=labels)) == ("unknown", "identity", None)
    assert not any("vector" in query or "GPU" in query for query in prometheus.asked)


def test_nothing_is_asked_twice_in_one_look(prometheus: FakePrometheus) -> None:
    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(60, NOW))
    inquiry = Inquiry(prometheus, NOW)
    inquiry.answer(faults.GPU_HOT, BY_AGENT)
    inquiry.answer(faults.GPU_HOT, BY_AGENT)
    assert len(prometheus.asked) == len(set(prometheus.asked))
    assert inquiry.asked


def test_silence_goes_up(prometheus: FakePrometheus) -> None:
    prometheus.silent = True
    with pytest.raises(Retry):
        ask(prometheus)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"gpu": 75.0}, "holds"),
        ({"gpu": 80.0}, "passed"),
        ({"memory": 75.0}, "unknown"),
        ({"gpu": 7.8}, "unknown"),
        ({"gpu": float("nan")}, "unknown"),
    ],
)
def test_the_limit_is_the_sites(limits: dict[str, float], expected: str) -> None:
    prometheus = FakePrometheus()
    prometheus.limits(NOW - 3, **limits)
    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(79, NOW))
    answer = ask(prometheus)
    assert answer.outcome == expected
    assert (answer.reason == "limit") == (expected == "unknown")


@pytest.mark.parametrize("other", [(NOW - 3, 70.0), (NOW - 90, 78.0)], ids=["two limits", "an old one"])
def test_a_limit_in_doubt_is_none(other: tuple[float, float]) -> None:
    prometheus = FakePrometheus()
    prometheus.limits(other[0], gpu=other[1])
    if other[1] != 78.0:
        prometheus.limits(NOW - 3, gpu=78.0)
    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(79, NOW))
    assert ask(prometheus).reason == "limit"


def test_replicas_that_agree_hold_and_those_that_do_not_are_in_conflict(prometheus: FakePrometheus) -> None:
    for replica in "ab":
        prometheus.put(TEMPERATURE, {**AGENT, **GPU, "prometheus_replica": replica}, steady(79, NOW))
    assert told(ask(prometheus)) == ("holds", "", 79)
    prometheus.put("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, steady(40, NOW))
    assert told(ask(prometheus)) == ("unknown", "conflict", None)


def slowed(prometheus: FakePrometheus, value: float = 1.0) -> None:
    prometheus.put("remediator_gpu_slowdown", {**AGENT, **GPU, "reason": "thermal"}, steady(value, NOW))
    prometheus.put("remediator_gpu_slowdown", {**AGENT, **GPU, "reason": "hardware_thermal"}, steady(0, NOW))


@pytest.mark.parametrize("flag", [None, 0.0, 1.0])
def test_a_gpu_that_is_impossibly_hot_and_not_slowed_down_is_in_another_unit(
    flag: float | None, prometheus: FakePrometheus
) -> None:
    """104 degrees is how a GPU at 40 °C looks in Fahrenheit."""
    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(104, NOW))
    if flag is not None:
        slowed(prometheus, flag)
    assert told(ask(prometheus))[:2] == (("holds", "") if flag else ("unknown", "unit"))


@pytest.mark.parametrize("value", [79000.0, 9.223372036854776e18, 0.0, 174.2, 351.0], ids=str)
def test_a_value_that_is_none_is_unknown_and_counted(value: float, prometheus: FakePrometheus) -> None:
    prometheus.put("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, steady(value, NOW))
    answer = ask(prometheus)
    assert told(answer) == ("unknown", "implausible", None)
    assert answer.implausible > 20


@pytest.mark.parametrize("moves", [False, True])
def test_a_gpu_of_which_not_one_reading_moves_is_not_read(moves: bool, prometheus: FakePrometheus) -> None:
    prometheus.put("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, steady(85, NOW))
    power = [(at, 412.318 + moves * (at % 7)) for at, _ in steady(0, NOW)]
    prometheus.put("DCGM_FI_DEV_POWER_USAGE", BY_DCGM, power)
    assert told(ask(prometheus, labels=BY_DCGM))[:2] == (("holds", "") if moves else ("unknown", "frozen"))


def test_a_margin_counts_only_on_a_gpu_that_is_hot(prometheus: FakePrometheus) -> None:
    prometheus.put("DCGM_FI_DEV_GPU_TEMP_LIMIT", BY_DCGM, steady(-5, NOW))
    prometheus.put("DCGM_FI_DEV_GPU_TEMP", BY_DCGM, steady(41, NOW))
    assert told(ask(prometheus, faults.GPU_MARGIN))[0] == "passed"
    prometheus.series[-1] = (prometheus.series[-1][0], steady(90, NOW))
    assert told(ask(prometheus, faults.GPU_MARGIN)) == ("holds", "", -2)
    prometheus.series[-2] = (prometheus.series[-2][0], steady(-3, NOW))
    assert told(ask(prometheus, faults.GPU_MARGIN))[0] == "passed"


@pytest.mark.parametrize(
    ("own", "expected"), [(None, "holds"), (105.0, "passed"), (90.0, "holds"), (0.0, "holds")]
)
def test_a_memorys_own_limit_goes_before_the_sites(
    own: float | None, expected: str, prometheus: FakePrometheus
) -> None:
    prometheus.put("remediator_gpu_memory_temperature_celsius", {**AGENT, **GPU}, steady(97, NOW))
    slowed(prometheus)
    if own is not None:
        limit = {**AGENT, **GPU, "limit": "memory"}
        prometheus.put("remediator_gpu_temperature_limit_celsius", limit, steady(own, NOW))
    assert ask(prometheus, faults.GPU_MEMORY).outcome == expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (0x40, "holds"),
        (0x48, "holds"),
        (0x20, "passed"),
        (0x84, "passed"),
        (0, "passed"),
        (9.2e18, "unknown"),
    ],
)
def test_of_dcgms_mask_one_bit_counts(mask: float, expected: str, prometheus: FakePrometheus) -> None:
    prometheus.put("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", BY_DCGM, steady(mask, NOW))
    assert ask(prometheus, faults.GPU_SLOWDOWN, BY_DCGM).outcome == expected


def test_hotter_than_its_siblings_needs_three_of_them_and_throttling(prometheus: FakePrometheus) -> None:
    def answer() -> tuple[str, str, float | None]:
        return told(ask(prometheus, faults.GPU_HOTTER))

    def siblings(number: int) -> dict[str, str]:
        return {**AGENT, "gpu": f"{number}", "uuid": f"GPU-{number}"}

    prometheus.put(TEMPERATURE, {**AGENT, **GPU}, steady(75, NOW))
    for number in (4, 5):
        prometheus.put(TEMPERATURE, siblings(number), steady(60, NOW))
    assert answer() == ("unknown", "siblings", None)
    prometheus.put(TEMPERATURE, siblings(6), steady(61, NOW))
    assert answer() == ("unknown", "absent", None)
    slowed(prometheus)
    assert answer() == ("holds", "", 15)
    for number in (4, 5):  # as hot as it: the room, or the node's fans
        prometheus.series = [one for one in prometheus.series if one[0].get("gpu") != str(number)]
        prometheus.put(TEMPERATURE, siblings(number), steady(74, NOW))
    assert answer()[0] == "passed"
