"""Which lines tell the same fault, for how long, and which of them are pushed."""

from __future__ import annotations

import pytest

from remediator.agent.bursts import MOST, Bursts, key_of
from remediator.agent.kernel_log import parse
from remediator.model.signal import KernelEvent

BUS = (
    "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:91:00): 79, pid=1122, GPU has fallen off the bus.",
    "NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
    "NVRM: GPU at 0000:91:00.0 has fallen off the bus.",
    "NVRM: The NVIDIA GPU 0000:91:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands.",
)
NO_GPU = "NVRM: fallen off the bus and is not responding to commands."


def event(line: str) -> KernelEvent:
    found = parse(line)
    assert found is not None
    return found


def xid(code: int, rest: str = "", pci: str = "0000:91:00") -> KernelEvent:
    return event(f"NVRM: Xid (PCI:{pci}): {code}{rest}")


def test_all_forms_of_a_gpu_off_the_bus_are_one_fault() -> None:
    assert len({key_of(event(line)) for line in BUS}) == 1
    bursts = Bursts()
    assert [bursts.lines(event(line), 1.0) for line in (*BUS, NO_GPU)] == [
        (1, True), *((number, False) for number in range(2, 7)),
    ]  # fmt: skip


def test_a_named_gpu_is_told_after_a_line_that_could_not_name_it() -> None:
    bursts = Bursts()
    assert bursts.lines(event(NO_GPU), 1.0) == (1, True)
    assert bursts.lines(event(BUS[0]), 1.0) == (1, True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (xid(31, ", pid=1, name=a, Ch 1"), xid(31, ", pid=2, name=a, Ch 1")),
        (xid(48), xid(63)),
        (xid(79), xid(79, pci="0000:92:00")),
        (xid(94, ", x", "0000:91:00 GPU-I:01"), xid(94, ", x", "0000:91:00 GPU-I:02")),
        (xid(74, ", error on link 1(0x0)"), xid(74, ", error on link 2(0x0)")),
        (
            xid(149, ", NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x025525c6 0x00000000"),
            xid(149, ", NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x026525c6 0x00000000"),
        ),
        (
            xid(154, ", GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"),
            xid(154, ", GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)"),
        ),
        (
            event("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM"),
            event("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 49 LTSSM"),
        ),
    ],
)  # fmt: skip
def test_another_process_code_gpu_instance_link_or_verdict_is_another_fault(
    one: KernelEvent, other: KernelEvent
) -> None:
    bursts = Bursts()
    assert [bursts.lines(one, 1.0), bursts.lines(other, 1.0)] == [(1, True), (1, True)]


@pytest.mark.parametrize("code", [79, 119, 120])
def test_whoever_called_a_dead_gpu_makes_no_other_fault(code: int) -> None:
    bursts = Bursts()
    assert bursts.lines(xid(code, ", pid=1, name=a, x"), 1.0) == (1, True)
    assert bursts.lines(xid(code, ", pid=2, name=b, x"), 1.0) == (2, False)


@pytest.mark.parametrize(("code", "window"), [(31, 180), (13, 15)])
def test_a_burst_lasts_until_its_lines_pause_for_their_window(code: int, window: int) -> None:
    bursts = Bursts()
    assert bursts.lines(xid(code), 0.0) == (1, True)
    assert bursts.lines(xid(code), float(window)) == (2, True)
    assert bursts.lines(xid(code), 2.0 * window) == (3, True)
    assert bursts.lines(xid(code), 3.0 * window + 1) == (1, True)


def test_a_clock_that_went_back_hides_nothing() -> None:
    bursts = Bursts()
    assert bursts.lines(xid(31), 1000.0) == (1, True)
    assert bursts.lines(xid(31), 10.0) == (1, True)


def test_a_thousand_faults_are_remembered_and_no_more() -> None:
    bursts = Bursts()
    for pid in range(MOST + 1):
        bursts.lines(xid(31, f", pid={pid}, name=a"), 1.0)
    assert bursts.lines(xid(31, f", pid={MOST}, name=a"), 1.0) == (2, False)
    assert bursts.lines(xid(31, ", pid=0, name=a"), 1.0) == (1, True)
