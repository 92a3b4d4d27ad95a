"""Which fault is the root does not depend on the order in which the lines came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.companions import (
    COMPANIONS_S,
    FOLLOW_ONS,
    companions,
    decides_at,
    followers_of,
    number,
    root_of,
)
from remediator.incidents.evidence import is_trusted
from remediator.incidents.ladder import PLANS, TIERS, Course, graver
from remediator.model.signal import Signal

BUSES = ("0000:18:00", "0000:2a:00")


def fault(code: int, at: float = 0.0, pci: str | None = BUSES[0], source: Any = "agent") -> Signal:
    """An XID, or from 10,000 on an SXid, of gpu-0."""
    switch = code >= 10_000
    return Signal(
        source=source, node="gpu-0", boot_id="b", kind="sxid" if switch else "xid", received_at=at,
        code=None if switch else code, pci="0000:01:00" if switch else pci, seen_at=at,
        dedupe=f"{source}:{code}:{at}:{pci}", detail={"extra": {"sxid": code}} if switch else {},
    )  # fmt: skip


codes = st.sampled_from([13, 31, 43, 45, 48, 62, 63, 64, 79, 94, 95, 140, 162, 163, 20034, 12028])
faults = st.builds(
    fault, codes, st.integers(0, 200).map(float), st.none() | st.sampled_from(BUSES),
    st.sampled_from(["agent", "webhook"]),
)  # fmt: skip
crowds = st.lists(faults, max_size=8, unique_by=lambda one: one.dedupe)


@given(crowd=crowds, data=st.data())
def test_the_order_of_arrival_changes_no_root_and_no_follower(
    crowd: list[Signal], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(crowd))
    for one in crowd:
        assert root_of(one, crowd) == root_of(one, other)
        assert followers_of(one, crowd) == followers_of(one, other)


@given(crowd=crowds)
def test_a_root_is_near_on_the_same_gpu_and_follows_nothing_of_its_follower(crowd: list[Signal]) -> None:
    for one in crowd:
        root = root_of(one, crowd)
        if root is None:
            continue
        assert abs(root.seen_at - one.seen_at) <= COMPANIONS_S
        assert root.pci == one.pci or None in {root.pci, one.pci} or one.kind == "sxid"
        assert root_of(root, [one]) is None
        assert (one.kind, number(one)) in {(each.kind, number(each)) for each in followers_of(root, crowd)}


@given(crowd=crowds)
def test_what_ends_a_channel_is_no_root_while_there_is_another_xid(crowd: list[Signal]) -> None:
    for one in crowd:
        if one.code in FOLLOW_ONS:
            known = [two for two in companions(one, crowd) if is_trusted(two) or not is_trusted(one)]
            near = [two for two in known if two.kind == "xid"]
            assert (root_of(one, crowd) is None) == all(two.code in FOLLOW_ONS for two in near)


@given(one=faults, told_late=st.floats(0, 1e6))
def test_nothing_waits_for_longer_than_a_minute(one: Signal, told_late: float) -> None:
    late = one.model_copy(update={"received_at": one.seen_at + told_late})
    assert late.received_at < decides_at(late) <= late.received_at + COMPANIONS_S
    of_the_future = one.model_copy(update={"received_at": one.seen_at - told_late})
    assert decides_at(of_the_future) == of_the_future.received_at + COMPANIONS_S


@pytest.mark.parametrize(
    ("crowd", "root"),
    [
        ((79, 45), None), ((45, 79), 79), ((45, 43), None),
        ((20034, 79), 79), ((48, 64), 64), ((48, 95, 63), 95),
        ((48, 94), 94), ((48, 63, 94), 63), ((48,), None), ((163, 162), 162), ((45, 13), 13),
        ((12028, 79), None), ((95, 63), None),
    ],
)  # fmt: skip
def test_the_first_follows(crowd: Sequence[int], root: int | None) -> None:
    lines = [fault(code, float(at)) for at, code in enumerate(crowd)]
    found = root_of(lines[0], lines)
    assert (found.code if found else None) == root


def test_what_nobody_trusts_is_no_root_of_what_the_kernel_said() -> None:
    assert root_of(fault(48), [fault(95, source="webhook")]) is None
    assert root_of(fault(48, source="webhook"), [fault(95)]) is not None


courses = st.builds(Course, st.sampled_from(TIERS), st.sampled_from([*PLANS, "give-back"]))


@given(found=st.lists(courses, min_size=1, max_size=6), data=st.data())
def test_folding_is_monotone_and_the_same_in_any_order(found: list[Course], data: st.DataObject) -> None:
    def folded(some: Sequence[Course]) -> Course:
        course = some[0]
        for each in some[1:]:
            after = graver(course, each)
            assert graver(after, course) == after == graver(after, each)
            course = after
        return course

    acting = [one for one in found if one.plan in PLANS] or [Course("T3", "record")]
    assert folded(acting) == folded(data.draw(st.permutations(acting)))
