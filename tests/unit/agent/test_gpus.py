"""GPUs through NVIDIA's own binding and a library with NVML's ABI: what is read, and what is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from deploy.lab.nvml import VARIABLE, FakeGpus, library
from remediator.agent.nvml.gpus import TRY_AGAIN_S, VISIBLE, Gpus, Lateness
from remediator.clock import ManualClock
from remediator.model.signal import KernelEvent
from tests.unit.agent.helpers import Node

BLANK = 9223372036854775794
GPU3 = {"uuid": "GPU-00000003-0000-0000-0000-000000000003"}


class Log:
    """Lines that were logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append(event)

    warning = info


class Machine:
    """A node with GPUs and the agent's collector of them, in virtual time."""

    def __init__(self, root: Path, fake: FakeGpus) -> None:
        self.fake, self.node = fake, Node(root)
        self.clock, self.log = ManualClock(), Log()
        self.gpus = self.started()

    def started(self, **changes: Any) -> Gpus:
        """Another process of the agent on the same node."""
        settings = self.node.settings("http://127.0.0.1:1", nvml_path=library(), **changes)
        self.gpus = Gpus(settings, self.clock, self.log)
        self.late = Lateness(self.gpus, self.log)
        self.registry = CollectorRegistry()
        self.registry.register(self.gpus.series)
        return self.gpus

    def look(self) -> list[KernelEvent]:
        self.clock.advance(self.gpus.every_s)
        return list(self.gpus.look(self.clock.now(), self.clock.steady()))

    def value(self, name: str, gpu: int | None = 0, **labels: str) -> float | None:
        found = [
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"remediator_{name}"
            and (gpu is None or sample.labels.get("gpu", str(gpu)) == str(gpu))
            and labels.items() <= sample.labels.items()
        ]
        return found[0] if found else None

    def unread(self, field: str) -> dict[str, float]:
        """How often a field was counted, by reason."""
        return {
            sample.labels["reason"]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "remediator_agent_gpu_unread_total" and sample.labels["field"] == field
        }


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpus]:
    found = FakeGpus(tmp_path / "gpus.txt")
    found.new()
    monkeypatch.setenv(VARIABLE, str(found.path))
    yield found
    assert not found.were_asked_in_parallel()


@pytest.fixture
def machine(tmp_path: Path, fake: FakeGpus) -> Iterator[Machine]:
    found = Machine(tmp_path, fake)
    yield found
    found.gpus.close()


def _kinds(events: list[KernelEvent]) -> list[tuple[str, str | None]]:
    return [(event.kind, event.pci) for event in events]


# --- what each generation says

A100: dict[tuple[str, ...], float | None] = {
    ("gpu_temperature_celsius",): 42,
    ("gpu_memory_temperature_celsius",): 48,
    ("gpu_thermal_margin_celsius",): None,
    ("gpu_thermal_offset_celsius", "slowdown"): None,
    ("gpu_temperature_limit_celsius", "slowdown"): 89,
    ("gpu_slowdown_margin_celsius",): 89 - 42,
    ("gpu_recovery_action",): None,
    ("gpu_tensor_activity_ratio",): None,
    ("gpu_slowdown", "hardware_thermal"): 0,
    ("nvlink_up", "11"): 1,
    ("nvlink_up", "12"): None,
    ("nvlink_errors_total", "11", "replay"): 0,
    ("nvlink_errors_total", "11", "crc"): None,
}
H100: dict[tuple[str, ...], float | None] = {
    ("gpu_thermal_margin_celsius",): 45,
    ("gpu_thermal_offset_celsius", "slowdown"): -2,
    ("gpu_slowdown_margin_celsius",): 47,
    ("gpu_recovery_action",): 0,
    ("gpu_tensor_activity_ratio",): 0.625,
    ("gpu_utilization_ratio",): 1,
    ("gpu_ecc_errors_total", "uncorrected", "volatile"): 0,
    ("nvlink_up", "17"): 1,
    ("nvlink_errors_total", "17", "replay"): 0,
    ("nvlink_errors_total", "17", "symbol"): None,
}
B200: dict[tuple[str, ...], float | None] = {
    ("gpu_temperature_limit_celsius", "slowdown"): None,
    ("gpu_slowdown_margin_celsius",): 48,
    ("nvlink_errors_total", "17", "symbol"): 0,
    ("nvlink_errors_total", "17", "recovery_failed"): 0,
    ("nvlink_errors_total", "3", "replay"): None,
}
NAMES = {"gpu_thermal_offset_celsius": ("limit",), "gpu_temperature_limit_celsius": ("limit",)} | {
    "gpu_slowdown": ("reason",), "nvlink_up": ("link",), "nvlink_errors_total": ("link", "kind"),
    "gpu_ecc_errors_total": ("kind", "lifetime"),
}  # fmt: skip


@pytest.mark.parametrize(("personality", "expected"), [("a100", A100), ("h100", H100), ("b200", B200)])
def test_each_generation_shows_what_it_has_and_nothing_else(
    machine: Machine, personality: str, expected: dict[tuple[str, ...], float | None]
) -> None:
    machine.fake.machine("personality", personality)
    assert machine.look() == machine.look() == []
    for (name, *labels), value in expected.items():
        own = dict(zip(NAMES.get(name, ()), labels, strict=True))
        assert machine.value(name, gpu=7, **own) == value, (name, own)
    assert machine.value("agent_gpu_state", state="reading") == 1
    assert machine.value("agent_gpus") == 8


def test_tensor_activity_is_over_the_time_since_the_last_reading(machine: Machine) -> None:
    machine.look()
    assert machine.value("gpu_tensor_activity_ratio") is None
    machine.fake.gpu(0, "tensor", 80)
    machine.look()
    assert machine.value("gpu_tensor_activity_ratio") == 0.8
    machine.fake.gpu(0, "rc.sample", 999)
    machine.look()
    assert machine.value("gpu_tensor_activity_ratio") is None
    machine.fake.forget("gpu 0 rc.sample")
    machine.look()
    assert machine.value("gpu_tensor_activity_ratio") is None, "the older sample is from before the gap"
    machine.look()
    assert machine.value("gpu_tensor_activity_ratio") == 0.8


def test_reading_of_one_gpu_is_under_its_own_labels(machine: Machine) -> None:
    machine.fake.gpu(3, "temperature", 81)
    machine.fake.gpu(3, "field.161.4", 17)
    machine.fake.gpu(3, "field.165.4", 0)
    machine.look()
    assert [machine.value("gpu_temperature_celsius", gpu) for gpu in (2, 3)] == [42, 81]
    labels = {**GPU3, "pci": "0000:5d:00"}
    assert machine.value("nvlink_errors_total", 3, link="4", kind="replay", **labels) == 17
    assert [machine.value("nvlink_up", 3, link=link) for link in ("3", "4")] == [1, 0]


@pytest.mark.parametrize(
    ("mask", "reason"),
    [(0x4, "power_cap"), (0x8, "hardware"), (0x40, "hardware_thermal"), (0x80, "power_brake")],
)
def test_slowdown_is_named_by_its_reason(machine: Machine, mask: int, reason: str) -> None:
    machine.fake.gpu(0, "reasons", mask | 0x1)
    machine.look()
    shown = {
        sample.labels["reason"]: sample.value
        for family in machine.registry.collect()
        for sample in family.samples
        if sample.name == "remediator_gpu_slowdown" and sample.labels["gpu"] == "0"
    }
    assert {name for name, on in shown.items() if on} == {reason}


# --- what cannot be read is absent

BAD: tuple[tuple[str, object, str, str, dict[str, str], str], ...] = (
    ("temperature", 0, "temperature", "gpu_temperature_celsius", {}, "implausible"),
    ("temperature", 255, "temperature", "gpu_temperature_celsius", {}, "implausible"),
    ("rc.temperature", 999, "temperature", "gpu_temperature_celsius", {}, "unknown"),
    ("field.82", 0, "memory_temperature", "gpu_memory_temperature_celsius", {}, "implausible"),
    ("field.82", BLANK, "memory_temperature", "gpu_memory_temperature_celsius", {}, "blank"),
    ("rc.field.82", 3, "memory_temperature", "gpu_memory_temperature_celsius", {}, "not_supported"),
    ("field.4", BLANK, "ecc_uncorrected", "gpu_ecc_errors_total", {"kind": "uncorrected"}, "blank"),
    ("field.4", 2147483632, "ecc_uncorrected", "gpu_ecc_errors_total", {"kind": "uncorrected"}, "blank"),
    ("field.94", -1, "pcie_replays", "gpu_pcie_replays_total", {}, "implausible"),
    ("field.145", 7, "remap_failed", "gpu_row_remap_failed", {}, "implausible"),
    ("field.230", 12, "recovery_action", "gpu_recovery_action", {}, "implausible"),
    ("rc.fields", 13, "recovery_action", "gpu_recovery_action", {}, "driver_too_old"),
    ("rc.margin", 27, "thermal_margin", "gpu_thermal_margin_celsius", {}, "not_ready"),
    ("margin", -2, "thermal_margin", "gpu_thermal_margin_celsius", {}, "contradiction"),
    ("utilization", 101, "utilization", "gpu_utilization_ratio", {}, "implausible"),
    ("rc.pci", 42, "identity", "gpu_temperature_celsius", {}, "error_42"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "value", "field", "metric", "labels", "reason"), BAD)
def test_bad_value_is_absent_and_counted_once(
    machine: Machine, name: str, value: object, field: str, metric: str, labels: dict[str, str], reason: str
) -> None:
    lifetime = {"lifetime": "volatile"} if metric == "gpu_ecc_errors_total" else {}
    machine.fake.gpu(5, name, value)
    for _ in range(3):
        assert machine.look() == []
    assert machine.value(metric, 5, **labels, **lifetime) is None
    assert machine.value(metric, 4, **labels, **lifetime) is not None
    assert machine.unread(field)[reason] == 1
    assert machine.value("gpu_temperature_celsius", 4) == 42


def test_field_that_fails_again_after_it_was_read_is_counted_again(machine: Machine) -> None:
    for _ in range(2):
        machine.fake.gpu(1, "rc.temperature", 999)
        machine.look()
        machine.fake.forget("gpu 1 rc.temperature")
        machine.look()
    assert machine.unread("temperature") == {"unknown": 2}


def test_negative_offset_is_read_from_an_unsigned_field_too(machine: Machine) -> None:
    machine.fake.gpu(0, "field.194", 2**32 - 2)
    machine.fake.gpu(1, "field.194", -2)
    machine.look()
    for gpu in (0, 1):
        assert machine.value("gpu_thermal_offset_celsius", gpu, limit="slowdown") == -2
        assert machine.value("gpu_slowdown_margin_celsius", gpu) == 47


def test_hot_chip_may_have_no_margin_left(machine: Machine) -> None:
    machine.fake.gpu(0, "temperature", 90)
    machine.fake.gpu(0, "margin", -3)
    machine.look()
    assert machine.value("gpu_slowdown_margin_celsius") == -1


def test_gpu_cut_into_instances_keeps_what_it_can_say(machine: Machine) -> None:
    machine.fake.gpu(2, "mig")
    assert machine.look() == machine.look() == []
    assert machine.value("gpu_mig", 2) == 1
    assert machine.value("gpu_temperature_celsius", 2) == 42
    for name in ("gpu_utilization_ratio", "gpu_tensor_activity_ratio", "gpu_row_remap_pending"):
        assert (machine.value(name, 2), machine.value(name, 3) is None) == (None, False)


def test_gpu_that_answers_every_question_with_unknown_is_not_lost(machine: Machine) -> None:
    machine.look()
    for what in ("fields", "temperature", "reasons", "utilization", "mig", "gpm", "sample", "margin"):
        machine.fake.gpu(6, f"rc.{what}", 999)
    assert machine.look() == []
    assert machine.value("gpu_lost", 6) == 0
    assert machine.value("gpu_temperature_celsius", 6) is None


# --- what is told at once


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_lost_gpu_is_told_once_and_leaves_the_others_readable(machine: Machine, how: str) -> None:
    machine.look()
    machine.fake.gpu(3, how)
    event = machine.look()[0]
    assert (event.kind, event.pci, event.extra["gpu"]) == ("gpu-lost", "0000:5d:00", 3)
    assert event.extra["uuid"] == GPU3["uuid"]
    assert machine.look() == []
    assert machine.value("gpu_lost", None, **GPU3) == 1
    assert machine.value("gpu_temperature_celsius", None, **GPU3) is None
    assert machine.value("gpu_temperature_celsius", 6) == 42
    assert machine.value("agent_gpus") == 8


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_gpu_that_came_back_and_is_lost_again_is_told_again(machine: Machine, how: str) -> None:
    machine.look()
    for _ in range(2):
        machine.fake.gpu(3, how)
        assert _kinds(machine.look()) == [("gpu-lost", "0000:5d:00")]
        machine.fake.forget(f"gpu 3 {how}")
        assert machine.look() == []
        assert machine.value("gpu_lost", None, **GPU3) == 0


@pytest.mark.parametrize("how", ["lost", "gone"])
def test_restart_of_the_agent_forgets_no_gpu_and_repeats_nothing(machine: Machine, how: str) -> None:
    for _ in range(2):
        machine.look()
    machine.gpus.close()
    machine.fake.gpu(3, how)
    machine.started()
    assert _kinds(machine.look()) == [("gpu-lost", "0000:5d:00")]
    machine.look()
    machine.gpus.close()
    machine.started()
    assert machine.look() == []
    assert machine.value("gpu_lost", None, **GPU3) == 1


def test_gpu_of_an_older_boot_is_not_missed(machine: Machine) -> None:
    for _ in range(2):
        machine.look()
    machine.fake.gpu(3, "gone")
    machine.node.boot.write_text("33333333-3333-3333-3333-333333333333")
    assert machine.look() == []
    assert machine.value("agent_gpus") == 7


def test_gpu_that_this_container_may_not_see_any_more_is_not_lost(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        machine.look()
    machine.gpus.close()
    machine.fake.gpu(3, "gone")
    monkeypatch.setenv(VISIBLE, "0,1,2,4,5,6,7")
    machine.started()
    assert machine.look() == []


def test_all_gpus_gone_at_once_are_not_lost(machine: Machine) -> None:
    machine.look()
    machine.fake.gpu("*", "gone")
    assert machine.look() == []
    assert machine.value("agent_gpu_state", state="no_gpu") == 1


def test_gpu_that_was_lost_before_the_agent_began_is_told(machine: Machine) -> None:
    machine.fake.gpu(3, "lost")
    assert _kinds(machine.look()) == [("gpu-lost", None)]
    assert machine.look() == []


def test_recovery_action_is_told_when_it_changes(machine: Machine) -> None:
    machine.look()
    told = []
    for action in (2, 2, 4, 0, 2):
        machine.fake.gpu(1, "field.230", action)
        told += [(event.extra["recovery_from"], event.extra["recovery_to"]) for event in machine.look()]
    assert told == [(0, 2), (2, 4), (4, 0), (0, 2)]


def test_recovery_action_that_cannot_be_read_for_a_while_is_not_told_twice(machine: Machine) -> None:
    machine.fake.gpu(1, "field.230", 2)
    assert _kinds(machine.look()) == [("gpu-recovery-action", "0000:2a:00")]
    machine.fake.gpu(1, "rc.field.230", 999)
    machine.look()
    machine.fake.forget("gpu 1 rc.field.230")
    assert machine.look() == []


def test_failed_row_remap_is_told_and_pending_is_only_shown(machine: Machine) -> None:
    machine.fake.gpu(0, "field.144", 1)
    machine.fake.gpu(1, "field.145", 1)
    assert _kinds(machine.look()) == [("gpu-remap-failed", "0000:2a:00")]
    assert machine.look() == []
    assert (machine.value("gpu_row_remap_pending", 0), machine.value("gpu_row_remap_failed", 1)) == (1, 1)


# --- machines on which nothing can be read


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (9, "no_driver"),
        (4, "no_permission"),
        (13, "driver_too_old"),
        (18, "library_driver_mismatch"),
        (999, "failed"),
    ],
)
def test_driver_that_does_not_answer_is_said_once_and_tried_again(
    machine: Machine, code: int, state: str
) -> None:
    machine.fake.machine("rc.init", code)
    for _ in range(20):
        assert machine.look() == []
    assert machine.value("agent_gpu_state", state=state) == 1
    assert machine.value("agent_gpu_reading_age_seconds") is None
    assert machine.log.lines == ["no GPU is read"]
    assert list(machine.late.look(0, 0)) == []
    machine.fake.forget("rc.init")
    machine.clock.advance(TRY_AGAIN_S)
    machine.look()
    assert machine.log.lines == ["no GPU is read", "GPUs are read"]


def test_machine_without_the_library_is_quiet(machine: Machine, tmp_path: Path) -> None:
    machine.started()
    settings = machine.node.settings("http://127.0.0.1:1", nvml_path=tmp_path / "nothing.so")
    machine.gpus = Gpus(settings, machine.clock, machine.log)
    machine.registry = CollectorRegistry()
    machine.registry.register(machine.gpus.series)
    for _ in range(20):
        assert machine.look() == []
    assert machine.value("agent_gpu_state", state="no_library") == 1
    assert machine.log.lines == ["no GPU is read"]


def test_machine_without_gpus_is_quiet(machine: Machine) -> None:
    machine.fake.machine("gpus", 0)
    for _ in range(20):
        assert machine.look() == []
    assert machine.log.lines == ["no GPU is read"]
    assert machine.value("agent_gpu_state", state="no_gpu") == 1


def test_driver_that_goes_away_is_no_lost_gpu(machine: Machine) -> None:
    machine.look()
    machine.fake.gpu("*", "rc.uuid", 1)
    machine.fake.gpu("*", "rc.fields", 1)
    machine.fake.machine("rc.init", 9)
    assert machine.look() == []
    assert machine.value("agent_gpu_state", state="no_driver") == 1
    assert machine.value("gpu_lost") is None


# --- a call that hangs


@pytest.mark.parametrize("call", ["nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature", "nvmlGpmSampleGet"])
def test_call_that_hangs_is_told_by_the_one_that_watches(machine: Machine, call: str) -> None:
    machine.look()
    machine.fake.machine("hang", call)
    stuck = threading.Thread(target=machine.look, daemon=True)
    stuck.start()
    machine.clock.advance(15)
    stuck.join(0.05)
    assert stuck.is_alive()
    assert list(machine.late.look(0, 0)) == []
    machine.clock.advance(25)
    assert _kinds(list(machine.late.look(0, 0))) == [("gpu-readings-late", None)]
    assert list(machine.late.look(0, 0)) == []
    age = machine.value("agent_gpu_reading_age_seconds")
    assert age is not None
    assert age >= 50
    assert machine.value("gpu_temperature_celsius") is None, "an old reading is no reading"
    machine.fake.forget("hang")
    stuck.join(10)
    assert not stuck.is_alive()
    machine.look()
    assert list(machine.late.look(0, 0)) == []
    assert machine.value("gpu_temperature_celsius") == 42
    assert machine.log.lines[-1] == "GPUs are read again"
