"""Raw numbers of the driver: whatever they are, a value is in its range or absent, and news is told once."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.agent.nvml import decode, table
from remediator.agent.nvml.decode import Range, Unread, contradicts, slowdown_margin, value_of
from remediator.agent.nvml.fields import fields
from remediator.agent.nvml.reading import Identity, Reading
from remediator.agent.nvml.table import Key
from remediator.agent.nvml.watch import news

RANGES = [value for value in vars(decode).values() if isinstance(value, Range)]
RAW = st.one_of(
    st.floats(), st.integers(-(2**64), 2**64), st.sampled_from([2**31 - 16, 2**32 - 1, 2**63 - 1, 2**64 - 1])
)
GPU = Identity(3, "GPU-3", "0000:5d:00")


@given(raw=RAW, allowed=st.sampled_from(RANGES))
def test_value_is_in_its_range_or_absent(raw: float, allowed: Range) -> None:
    value = value_of(raw, allowed)
    assert isinstance(value, Unread) or (math.isfinite(value) and allowed.low <= value <= allowed.high)


@given(celsius=st.integers(-50, -1), bits=st.sampled_from([32, 64]))
def test_negative_degrees_survive_an_unsigned_field(celsius: int, bits: int) -> None:
    assert value_of(2**bits + celsius, decode.OFFSETS) == celsius
    assert isinstance(value_of(2**bits + celsius, decode.CELSIUS), Unread)


@pytest.mark.parametrize(
    "blank", [0x7FFFFFF0, 0x7FFFFFF3, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFF0, 2**63 - 1, 2**64 - 1]
)
def test_blank_of_any_width_is_no_count(blank: int) -> None:
    assert isinstance(value_of(blank, decode.COUNT), Unread)


@given(st.none() | st.floats(-50, 130), st.none() | st.floats(-50, 50), st.none() | st.floats(1, 130))
def test_margin_to_the_slowdown_needs_both_of_its_parts(
    margin: float | None, offset: float | None, celsius: float | None
) -> None:
    assert slowdown_margin(margin, offset, None, None) == (
        None if margin is None or offset is None else margin - offset
    )
    assert slowdown_margin(None, offset, celsius, 89) == (None if celsius is None else 89 - celsius)


@given(margin=st.floats(-50, 130), offset=st.floats(-10, 0), celsius=st.floats(decode.COOL_C, 130))
def test_margin_of_a_warm_chip_is_believed(margin: float, offset: float, celsius: float) -> None:
    assert not contradicts(margin, offset, celsius)
    assert not contradicts(margin, offset, None)


def test_no_two_fields_of_one_gpu_are_the_same_question() -> None:
    asked = [(field.number, field.scope) for field in fields(36)]
    assert len(asked) == len(set(asked))


@given(
    st.lists(
        st.builds(
            lambda lost, action, failed: (lost, action, failed),
            st.booleans(), st.none() | st.integers(0, 7), st.none() | st.booleans(),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_each_state_is_told_when_it_begins_and_never_while_it_lasts(
    story: list[tuple[bool, int | None, bool | None]],
) -> None:
    told: tuple[str, ...] = ()
    for lost, action, failed in story:
        values = {}
        if not lost and action is not None:
            values[Key(table.RECOVERY)] = float(action)
        if not lost and failed is not None:
            values[Key(table.REMAP_FAILED)] = float(failed)
        reading = Reading(GPU, lost=lost, values=values)
        before = told
        events, told = news(reading, told)
        assert news(reading, told) == ([], told)
        kinds = {event.kind for event in events}
        assert ("gpu-lost" in kinds) == (lost and "gpu-lost" not in before)
        if lost:
            assert kinds <= {"gpu-lost"}
        elif action:
            assert ("gpu-recovery-action" in kinds) == (f"gpu-recovery-action {action}" not in before)
        elif action == 0:
            lowered = [event.extra for event in events if event.kind == "gpu-recovery-action"]
            asked = [int(fact.split()[1]) for fact in before if fact.startswith("gpu-recovery-action")]
            assert [(one["recovery_from"], one["recovery_to"]) for one in lowered] == [
                (was, 0) for was in asked
            ]
