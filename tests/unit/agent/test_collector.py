"""Collectors stand beside the log: one that fails or hangs keeps nothing else from going on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from remediator.agent.collector import Looking
from remediator.clock import ManualClock, SystemClock
from remediator.model.signal import KernelEvent


class Said:
    """Collects what is logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info


class Plays:
    """A collector that plays one function a look."""

    name, every_s = "played", 0.01

    def __init__(self, *parts: Callable[[], Iterable[KernelEvent]]) -> None:
        self._parts = list(parts)

    def look(self, now: float, steady: float) -> Iterable[KernelEvent]:
        return self._parts.pop(0)() if self._parts else []


def fails() -> Iterable[KernelEvent]:
    raise PermissionError("sysfs is closed")


def test_a_look_that_fails_is_told_once_until_one_goes_well() -> None:
    said, told = Said(), list[KernelEvent]()
    event = KernelEvent(kind="hca-gone")
    looked: list[int] = []
    looking = Looking(
        Plays(fails, fails, lambda: [event], fails),
        told.append,
        ManualClock(),
        said,
        lambda: looked.append(len(told)),
    )
    for _ in range(4):
        looking.look()
    assert looked == [1], "after the one that went well, once its event was told"
    assert [fields["why"] for _, fields in said.lines] == ["PermissionError: sysfs is closed"] * 2
    assert told == [event]


def test_a_look_that_hangs_holds_up_its_own_thread_only() -> None:
    freed, hangs, told = threading.Event(), threading.Event(), threading.Event()

    def hang() -> Iterable[KernelEvent]:
        hangs.set()
        freed.wait(20)
        return []

    stuck = Looking(Plays(hang), lambda _: None, SystemClock(), Said())
    well = Looking(Plays(lambda: [KernelEvent(kind="hca-gone")]), lambda _: told.set(), SystemClock(), Said())
    for looking in (stuck, well):
        looking.start()
    assert hangs.wait(20)
    assert told.wait(20)
    for looking in (stuck, well):
        looking.stop()
    freed.set()
