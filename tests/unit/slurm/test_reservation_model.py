"""When a reservation holds a node."""

from __future__ import annotations

import pytest

from slurm_bridge.model import Reservation

MAINT = Reservation("m", ("gpu-0",), flags=frozenset({"MAINT"}), start=100.0, end=200.0)


@pytest.mark.parametrize(("at", "held"), [(99.9, False), (100.0, True), (199.9, True), (200.0, False)])
def test_it_holds_its_nodes_from_its_start_to_its_end(at: float, held: bool) -> None:
    assert MAINT.covers("gpu-0", at) is held
    assert not MAINT.covers("gpu-1", at)


def test_a_time_nobody_knows_counts_as_held() -> None:
    assert Reservation("m", ("gpu-0",)).covers("gpu-0", 0.0)
    assert Reservation("m", ("gpu-0",), start=100.0).covers("gpu-0", 1e12)
