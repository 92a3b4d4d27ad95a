"""Signals per second through intake and through decision, in this process, on SQLite on the disk."""

from __future__ import annotations

import cProfile
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from remediator.clock import Clock, SystemClock
from remediator.model.signal import Signal
from remediator.settings import Budgets
from remediator.signals.intake import Intake
from remediator.store.engine import Store, open_store
from tests.bench import mixture
from tests.bench.figures import Figure, Goal, milliseconds
from tests.bench.profiles import top_costs
from tests.bench.rawstore import RawStore
from tests.bench.world import ACTED, BATCH, LATER, NODES, OPEN, RECORDED, UNLIMITED, World, signal_of

SENDERS = ((8, 1), (64, 1), (8, 20))
"""Threads that wait for their commit, and signals in each of their pushes; HTTP has 64 threads."""
PROFILED = 5
DECIDED_FLOOR = f"floor: commits of {BATCH} decided"
FLOW = Goal(at_least=2000)
PEER = "a public peer's analyser correlates 57 signals/s on one core (its ADR-056)"
Tell = Callable[[str], None]


def intake(rounds: int, seconds: float, folder: Path, tell: Tell) -> list[Figure]:
    """Senders that wait for their commit, as the HTTP door's threads do."""
    return [figure for load in SENDERS for figure in _intake(load, rounds, seconds, folder, tell)]


def _intake(load: tuple[int, int], rounds: int, seconds: float, folder: Path, tell: Tell) -> list[Figure]:
    what = f"intake: {load[0]} senders, {load[1]} each"
    rates: list[float] = []
    batches: list[int] = []
    with _scratch(folder) as path:
        for i in range(rounds):
            tell(f"{what}: {i + 1} of {rounds}")
            rate, sizes = _submitted(f"sqlite:///{path}/{i}.db", load, seconds)
            rates.append(rate)
            batches += sizes
        profile = cProfile.Profile()
        _submitted(f"sqlite:///{path}/profile.db", load, seconds / 2, profile)
        batch = round(median(batches))
        floor = _raw_rates(path, batch, rounds)
    name = f"floor: commits of {batch}"
    limit = f"{batch} rows a commit (median); {top_costs(profile)}"
    return [
        Figure(what, "signals/s", tuple(rates), name, limited_by=limit),
        Figure(name, "signals/s", floor),
    ]


def _submitted(
    url: str, load: tuple[int, int], seconds: float, profile: cProfile.Profile | None = None
) -> tuple[float, list[int]]:
    """Signals per second that senders saw committed, and the rows of each commit."""
    senders, size = load
    sizes: list[int] = []
    store = open_store(url)
    door = ProfiledIntake(store, lambda rows, _seconds: sizes.append(rows), SystemClock(), profile)
    door.start()
    counts = itertools.count()
    began = time.perf_counter()

    def send() -> None:
        while time.perf_counter() < began + seconds:
            door.submit([_signal(next(counts)) for _ in range(size)])

    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    door.stop()
    store.close()
    return sum(sizes) / took, sizes


def _signal(number: int) -> Signal:
    return signal_of(number % OPEN, RECORDED, number, time.time())


def flow(rounds: int, folder: Path, tell: Tell) -> list[Figure]:
    """Signals through intake, correlation and decision on one core, with budgets, memory and groups on."""
    sick, well = range(OPEN), range(OPEN, NODES)
    cases = (
        ("recorded", RECORDED, well, 1, FLOW),
        ("folded in", ACTED, sick, 1, FLOW),
        ("T1, 5 of a node, judged together", LATER, well, 5, FLOW),
        ("T1, each opens an incident", LATER, well, 1, Goal()),
    )
    figures = []
    with _scratch(folder) as path, _one_core():
        for what, code, nodes, each, goal in cases:
            name = f"river, {NODES} nodes, {OPEN} open: {what}"
            tell(name)
            world, waits = World(path / f"flow-{code}-{each}.db", OPEN, Budgets()), code == LATER
            fresh = (
                each * len(nodes) // BATCH - 1 if waits else rounds
            )  # on a known node it waits for nothing
            rates = [world.flow(code, nodes, each, waits=waits) for _ in range(min(rounds, fresh))]
            profile = cProfile.Profile()
            profile.runcall(world.flow, code, nodes, each, waits=waits)
            world.close()
            figures.append(Figure(name, "signals/s", tuple(rates), goal=goal, limited_by=top_costs(profile)))
        figures.insert(0, _mixed(path, tell))
    return figures


def _mixed(path: Path, tell: Tell) -> Figure:
    """What a cluster's kernel logs send, of which the pure streams are the parts."""
    name = f"river, {NODES} nodes, {OPEN} open: kernel lines as in the trace"
    tell(name)
    *counted, last = mixture.streams()
    world = World(path / "mixed.db", OPEN, Budgets())
    rates = [world.play(stream) for stream in counted]
    profile = cProfile.Profile()
    profile.runcall(world.play, last)
    world.close()
    return Figure(name, "signals/s", tuple(rates), goal=FLOW, limited_by=top_costs(profile))


@contextmanager
def _one_core() -> Iterator[None]:
    """Threads that are started within share one core with this one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def decision(rounds: int, folder: Path, tell: Tell) -> list[Figure]:
    """Turns of the core over full batches: signals to be recorded, and such that fold into open incidents."""
    cases = (
        ("decide: record", 0, RECORDED),
        (f"decide: record, {OPEN} open", OPEN, RECORDED),
        (f"decide: fold into {OPEN} open", OPEN, ACTED),
    )
    figures = []
    with _scratch(folder) as path:
        for what, opened, code in cases:
            tell(what)
            figures.append(_decided(what, opened, code, rounds, path))
        figures += [
            _idle(f"idle turn, {OPEN} open", UNLIMITED, path, rounds),
            _idle(f"idle turn, most of {OPEN} held", Budgets(), path, rounds),
            Figure(DECIDED_FLOOR, "signals/s", _raw_rates(path, BATCH, rounds)),
        ]
    return figures


class ProfiledIntake(Intake):
    """An intake whose own thread is profiled when a profile is given."""

    def __init__(
        self,
        store: Store,
        committed: Callable[[int, float], None],
        clock: Clock,
        profile: cProfile.Profile | None,
    ) -> None:
        super().__init__(store, committed, clock)
        self._profile = profile

    def _run(self) -> None:
        if self._profile is None:
            super()._run()
        else:
            self._profile.runcall(super()._run)


def _decided(what: str, opened: int, code: int, rounds: int, path: Path) -> Figure:
    world = World(path / f"{opened}-{code}.db", opened)
    rates = [world.decide(code) for _ in range(rounds)]
    profile = cProfile.Profile()
    for _ in range(PROFILED):
        profile.runcall(world.decide, code)
    world.close()
    return Figure(what, "signals/s", tuple(rates), DECIDED_FLOOR, limited_by=top_costs(profile))


def _idle(what: str, budgets: Budgets, path: Path, rounds: int) -> Figure:
    """A turn that finds nothing new: what every nudge costs while many incidents are open."""
    world = World(path / f"idle-{budgets.enabled}.db", OPEN, budgets)
    spent = [world.idle_turn() for _ in range(10 * rounds)]
    profile = cProfile.Profile()
    for _ in range(PROFILED):
        profile.runcall(world.idle_turn)
    world.close()
    return Figure(what, "ms", milliseconds(spent), limited_by=top_costs(profile))


def _raw_rates(folder: Path, rows: int, rounds: int) -> tuple[float, ...]:
    raw = RawStore(folder)
    rates = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(10):
            raw.commit(rows)
        rates.append(10 * rows / (time.perf_counter() - began))
    raw.close()
    return tuple(rates)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bench-", dir=folder))
    try:
        yield path
    finally:
        shutil.rmtree(path)
