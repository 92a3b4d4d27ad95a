"""Counters and ports in any order of events: no jump that was not counted, no word before its time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from remediator.agent.fabric.counters import Totals
from remediator.agent.fabric.ports import Port
from remediator.agent.fabric.watch import Watch, Wire

DOWN_S, STEP_S = 60.0, 10.0
STATES = {"up": ("4: ACTIVE", "5: LinkUp"), "down": ("1: DOWN", "2: Polling"), "unknown": ("", "")}


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**63 - 1)), min_size=1, max_size=30))
def test_a_total_is_the_sum_of_what_was_seen_to_be_counted(readings: list[int | None]) -> None:
    """None: the file could not be read."""
    totals = Totals()
    for value in readings:
        totals.take({} if value is None else {"symbol_error": value})
    seen = [value for value in readings if value is not None]
    assert totals.values.get("symbol_error", 0) == sum(max(0, b - a) for a, b in pairwise(seen))
    assert totals.resets == sum(b < a for a, b in pairwise(seen))


@given(st.lists(st.sampled_from(sorted(STATES)), max_size=60))
def test_a_port_is_told_once_in_each_time_that_it_is_down_for_long_enough(looks: list[str]) -> None:
    watch, told, since, said = Watch(DOWN_S), [], None, False
    for number, look in enumerate(looks):
        state, physical = STATES[look]
        wire = Wire(Port("mlx5_0", "1", state, physical, rate=50e9), "0", "0", "", best=50e9)
        told = watch.look([wire], [], number * STEP_S)
        if look == "up":
            since, said = None, False
        elif look == "down" and since is None:
            since = number
        due = look == "down" and since is not None and (number - since) * STEP_S >= DOWN_S and not said
        assert [event.kind for event in told] == (["ib-port-down"] if due else [])
        said |= due
