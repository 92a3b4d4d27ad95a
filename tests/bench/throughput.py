"""Signals per second through intake and through decision, in this process, on SQLite on the disk."""

from __future__ import annotations

import cProfile
import itertools
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from remediator.clock import Clock, SystemClock
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, parse_pod
from remediator.model.signal import Signal
from remediator.policy import rules
from remediator.run.core import Core
from remediator.run.inventory import CachedInventory
from remediator.run.triage import Triage
from remediator.settings import Budgets, Pool
from remediator.signals.intake import Intake
from remediator.store import leadership, signals
from remediator.store.engine import Store, open_store
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger
from tests.bench.figures import Figure, milliseconds
from tests.bench.profiles import top_costs
from tests.bench.rawstore import RawStore

SENDERS = ((8, 1), (64, 1), (8, 20))
"""Threads that wait for their commit, and signals in each of their pushes; HTTP has 64 threads."""
NODES = 1000
OPEN = 500
BATCH = 500
PROFILED = 5
RECORDED, ACTED = 43, 79
DECIDED_FLOOR = f"floor: commits of {BATCH} decided"
UNLIMITED = Budgets(enabled=False)
POOLS = {"training": Pool(node_selector={"pool": "training"}, stage="full")}
_WORKER = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
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
            door.submit([_signal(next(counts), RECORDED) for _ in range(size)])

    threads = [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    door.stop()
    store.close()
    return sum(sizes) / took, sizes


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
    rates = [world.rate(code) for _ in range(rounds)]
    profile = cProfile.Profile()
    for _ in range(PROFILED):
        profile.runcall(world.rate, code)
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


class World:
    """A core over 1,000 nodes; `opened` of them have an open incident whose step waits for an hour."""

    def __init__(self, path: Path, opened: int, budgets: Budgets = UNLIMITED) -> None:
        self._store = open_store(f"sqlite:///{path}")
        self._now = time.time()
        with self._store.write() as connection:
            epoch = leadership.acquire(connection, "bench", 3600.0, sole=True)
        journal = Journal("bench", epoch or 0)
        inventory = _inventory()
        ledger = Ledger(budgets, inventory.pool_size, journal)
        engine = Engine(journal, "bench", ledger)
        triage = Triage(inventory, rules.load(), ledger, engine, journal)
        self._core = Core(self._store, engine, triage, journal)
        self._counts = itertools.count()
        self._open(opened)

    def rate(self, code: int) -> float:
        """Signals per second of one turn over a full batch, spread over the first 500 nodes."""
        self._receive([next(self._counts) for _ in range(BATCH)], code)
        began = time.perf_counter()
        turn = self._core.turn(self._now)
        took = time.perf_counter() - began
        if len(turn.sentences) != BATCH:
            raise AssertionError(f"{len(turn.sentences)} of {BATCH} signals were judged")
        return BATCH / took

    def idle_turn(self) -> float:
        """Seconds of a turn without news."""
        began = time.perf_counter()
        self._core.turn(self._now)
        return time.perf_counter() - began

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _open(self, count: int) -> None:
        """Incidents whose first call was handed out and never comes back: they stay open and quiet."""
        for _ in range(0, count, BATCH):
            self._receive([next(self._counts) for _ in range(BATCH)], ACTED)
            self._core.turn(self._now)

    def _receive(self, numbers: Sequence[int], code: int) -> None:
        with self._store.write() as connection:
            signals.insert_new(connection, [_signal(number, code) for number in numbers])


def _signal(number: int, code: int) -> Signal:
    node = f"gpu-{number % OPEN}"
    now = time.time()
    return Signal(
        source="agent",
        node=node,
        boot_id=f"boot-{node}",
        kind="xid",
        code=code,
        pci="0000:18:00",
        seen_at=now,
        received_at=now,
        dedupe=f"agent:{node}:{code}:{number}",
        detail={"pid": None, "process": None, "extra": {}, "raw": 100 * "x"},
    )


def _inventory() -> CachedInventory:
    """Watches that are in step, one Slurm worker on each node."""
    by_name = {f"gpu-{i}": _node(f"gpu-{i}") for i in range(NODES)}
    nodes = tuple(by_name.values())
    pods = tuple(_pod(f"w-{i}", f"gpu-{i}") for i in range(NODES))
    return CachedInventory(by_name.get, lambda: nodes, lambda: pods, POOLS)


def _node(name: str) -> NodeView:
    return NodeView(
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        provider_id=f"bench://{name}",
        boot_id=f"boot-{name}",
        labels={"pool": "training"},
        annotations={},
        taints=(),
        unschedulable=False,
        ready=True,
    )


def _pod(name: str, node: str) -> PodView:
    meta = {
        "name": name,
        "namespace": "slurm",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": _WORKER,
    }
    pod = parse_pod({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
    if pod is None:
        raise AssertionError("the bench's own pod cannot be parsed")
    return pod


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
