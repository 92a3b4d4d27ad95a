"""Full collections wait until there is nothing to do, and are made all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from remediator.clock import ManualClock
from remediator.run.garbage import EVERY_S, Garbage


class Ring:
    """Refers to itself: only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def garbage() -> Iterator[tuple[ManualClock, Garbage]]:
    clock, before = ManualClock(), gc.get_threshold()
    found = Garbage(clock)
    found.settle()
    yield clock, found
    gc.set_threshold(*before)
    gc.unfreeze()


def old_ring() -> weakref.ref[Ring]:
    """A ring that has outlived the young collections."""
    ring = Ring()
    gc.collect(0)
    gc.collect(1)
    return weakref.ref(ring)


def test_what_has_become_old_is_freed_by_a_sweep_that_is_due(garbage: tuple[ManualClock, Garbage]) -> None:
    clock, here = garbage
    ring = old_ring()
    clock.advance(EVERY_S - 1.0)
    here.sweep()
    assert ring() is not None
    clock.advance(1.0)
    here.sweep()
    assert ring() is None


def test_no_full_collection_comes_by_itself(garbage: tuple[ManualClock, Garbage]) -> None:
    full: list[str] = []

    def told(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            full.append(phase)

    gc.callbacks.append(told)
    kept = [[Ring()] for _ in range(200_000)]
    gc.callbacks.remove(told)
    assert (len(kept), full) == (200_000, [])


def test_what_is_there_when_it_settles_is_not_looked_through(garbage: tuple[ManualClock, Garbage]) -> None:
    assert gc.get_freeze_count() > 10_000
