"""SXid lines of several switches, mixed by the kernel: each head is one event, whatever stands between."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from remediator.agent.kernel_log import parse

CODES = st.sampled_from([11004, 12033, 20034, 24007, 26006])


def lines_of(switch: int, code: int, link: int, parts: int) -> list[str]:
    """What the driver prints for one error of one switch."""
    head = f"nvidia-nvswitch{switch}: SXid (PCI:0000:{switch + 5:02x}:00.0): {code:05d}"
    data = f"{head}, Data {{0x10000000, 0x00000000, 0x{link:08x}}}"
    severity = f"{head}, Severity 1 Engine instance {link:02d} Sub-engine instance 00"
    return [f"{head}, Fatal, Link {link:02d} LTSSM Fault Up", severity, data, data][: 1 + parts]


@st.composite
def mixed(draw: st.DrawFn) -> tuple[list[str], Counter[tuple[int, int, int]]]:
    """Lines of one to six errors, each in its own order, and the events they are."""
    kinds = st.tuples(st.integers(0, 3), CODES, st.integers(0, 63), st.integers(0, 3))
    errors = draw(st.lists(kinds, min_size=1, max_size=6))
    waiting = [lines_of(*error) for error in errors]
    mixture: list[str] = []
    while any(waiting):
        turn = draw(st.sampled_from([lines for lines in waiting if lines]))
        mixture.append(turn.pop(0))
    return mixture, Counter(error[:3] for error in errors)


@given(mixed(), st.integers(0, 200))
def test_each_error_of_each_switch_is_one_event(
    told: tuple[list[str], Counter[tuple[int, int, int]]], cut: int
) -> None:
    lines, expected = told
    lines[-1] = lines[-1][: max(cut, lines[-1].index("): ") + 11)]  # the last may be cut
    events = [event for line in lines if (event := parse(line)) is not None]
    assert len(events) == len(lines)
    heads = Counter(
        (event.extra["nvswitch"], event.extra["sxid"]) for event in events if event.kind == "sxid"
    )
    assert heads == Counter((switch, code) for switch, code, _ in expected.elements())
