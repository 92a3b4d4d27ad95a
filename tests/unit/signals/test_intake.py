"""Nothing is answered before its commit, nothing is lost, and a refusal reaches everybody it concerns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.signal import Signal
from remediator.signals import intake as module
from remediator.signals.intake import MAX_ROWS, Intake
from remediator.store import schema
from remediator.store.engine import Store, open_store


def signal(name: str) -> Signal:
    return Signal(
        source="agent", node="gpu-0", boot_id="boot-one", kind="xid", code=79, pci=None,
        seen_at=1.0, received_at=1.0, dedupe=name,
    )  # fmt: skip


class GatedStore(Store):
    """A real store whose commits wait for the test, and fail as often as it says."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.open = threading.Event()
        self.open.set()
        self.began = threading.Semaphore(0)
        self.failures: list[Exception] = []

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        with super().write() as connection:
            yield connection
            self.began.release()
            assert self.open.wait(20.0)
            if self.failures:
                raise self.failures.pop(0)


class Door:
    """An intake on a gated store, and what it reported."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/s.db"
        open_store(url).close()
        self.store = GatedStore(url)
        self.commits: list[int] = []
        self.intake = Intake(self.store, lambda rows, _seconds: self.commits.append(rows), ManualClock())

    def rows(self) -> list[str]:
        with self.store.read() as connection:
            return list(connection.execute(sa.select(schema.signal.c.dedupe)).scalars())


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.store.open.set()
    door.store.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def started(door: Door) -> Intake:
    door.intake.start()
    return door.intake


def waiting(intake: Intake, count: int) -> None:
    """Return once `count` tickets wait in the queue."""
    pause = threading.Event()
    for _ in range(4000):
        if intake._queue.qsize() >= count:
            return
        pause.wait(0.005)
    pytest.fail(f"never saw {count} tickets wait")


def held_back(
    door: Door, pool: ThreadPoolExecutor, batches: Sequence[Sequence[Signal]]
) -> list[Future[None]]:
    """Submit a first ticket, and once its commit is under way all of `batches`, which must wait for it."""
    door.store.open.clear()
    first = pool.submit(door.intake.submit, [signal("first")])
    assert door.store.began.acquire(timeout=20.0)
    others = [pool.submit(door.intake.submit, batch) for batch in batches]
    waiting(door.intake, len(batches))
    return [first, *others]


def test_nothing_is_answered_before_its_commit(door: Door, pool: ThreadPoolExecutor) -> None:
    started(door)
    (first,) = held_back(door, pool, [])
    assert not first.done()
    assert door.rows() == []
    door.store.open.set()
    first.result(20.0)
    assert door.rows() == ["first"]
    door.intake.stop()


def test_all_that_gathered_during_a_commit_share_the_next_one(door: Door, pool: ThreadPoolExecutor) -> None:
    started(door)
    futures = held_back(door, pool, [[signal("a")], [signal("b"), signal("c")], [signal("d")]])
    door.store.open.set()
    for future in futures:
        future.result(20.0)
    door.intake.stop()
    assert door.commits == [1, 4]


def test_a_batch_ends_once_it_is_full(door: Door, pool: ThreadPoolExecutor) -> None:
    started(door)
    half = MAX_ROWS // 2
    batches = [[signal(f"{batch}-{row}") for row in range(half)] for batch in range(3)]
    futures = held_back(door, pool, batches)
    door.store.open.set()
    for future in futures:
        future.result(20.0)
    door.intake.stop()
    assert door.commits == [1, MAX_ROWS, half]


def test_a_failed_commit_is_retry_for_all_of_the_batch_and_the_next_one_works(
    door: Door, pool: ThreadPoolExecutor
) -> None:
    started(door)
    door.store.failures = [Retry("first"), Retry("disk is full")]
    futures = held_back(door, pool, [[signal("a")], [signal("b")]])
    door.store.open.set()
    for future in futures:
        with pytest.raises(Retry):
            future.result(20.0)
    assert (door.rows(), door.commits) == ([], [])
    door.intake.submit([signal("a")])
    assert door.rows() == ["a"]
    door.intake.stop()


@pytest.mark.parametrize(
    "broken",
    [ValueError("a bug"), sa.exc.DatabaseError("x", None, Exception("malformed"))],
    ids=["a bug", "a damaged file"],
)
def test_an_unforeseen_error_is_retry_too_and_the_door_stays_open(door: Door, broken: Exception) -> None:
    started(door)
    door.store.failures = [broken]
    with pytest.raises(Retry):
        door.intake.submit([signal("a")])
    door.intake.submit([signal("b")])
    assert door.rows() == ["b"]
    door.intake.stop()


def test_a_repeated_delivery_is_the_same_row(door: Door) -> None:
    started(door)
    door.intake.submit([signal("a"), signal("a"), signal("b")])
    door.intake.submit([signal("b"), signal("c")])
    door.intake.stop()
    assert sorted(door.rows()) == ["a", "b", "c"]


def test_many_submitters_lose_nothing(door: Door, pool: ThreadPoolExecutor) -> None:
    started(door)
    names = [[f"{thread}-{number}" for number in range(40)] for thread in range(8)]

    def send(mine: list[str]) -> None:
        for name in mine:
            door.intake.submit([signal(name)])

    for future in [pool.submit(send, mine) for mine in names]:
        future.result(60.0)
    door.intake.stop()
    assert sorted(door.rows()) == sorted(name for mine in names for name in mine)
    assert sum(door.commits) == 320


def test_stop_commits_what_is_queued(door: Door, pool: ThreadPoolExecutor) -> None:
    started(door)
    futures = held_back(door, pool, [[signal("a")], [signal("b")]])
    stopped = pool.submit(door.intake.stop)
    waiting(door.intake, 3)
    door.store.open.set()
    stopped.result(20.0)
    for future in futures:
        future.result(20.0)
    assert sorted(door.rows()) == ["a", "b", "first"]
    assert not door.intake._thread.is_alive()


def test_stop_ends_the_thread_when_nothing_is_queued(door: Door) -> None:
    started(door).stop()
    assert not door.intake._thread.is_alive()


def test_a_full_queue_is_retry_at_once(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    door = Door(tmp_path)
    started(door)
    futures = held_back(door, pool, [[signal("a")], [signal("b")]])
    with pytest.raises(Retry, match="full"):
        door.intake.submit([signal("c")])
    door.store.open.set()
    for future in futures:
        future.result(20.0)
    door.intake.stop()
    assert "c" not in door.rows()


def test_a_store_that_never_answers_is_retry(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL_S", 0.05)
    with pytest.raises(Retry, match="too long"):
        door.intake.submit([signal("a")])  # the thread was never started


def test_a_sender_that_gives_up_takes_nothing_back_and_stops_nobody(
    door: Door, pool: ThreadPoolExecutor
) -> None:
    started(door)
    (first,) = held_back(door, pool, [])
    mine = door.intake.hand_in([signal("mine")])
    assert not mine.cancel()
    door.store.open.set()
    first.result(20.0)
    door.intake.submit([signal("another")])
    assert sorted(door.rows()) == ["another", "first", "mine"]
    door.intake.stop()


def test_an_empty_submission_needs_no_commit(door: Door) -> None:
    door.intake.submit([])
    assert door.intake._queue.qsize() == 0


def test_the_news_of_a_commit_comes_after_it(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    look: Callable[[], list[str]] = list

    def committed(_rows: int, _seconds: float) -> None:
        seen.append(look())

    door = Door(tmp_path)
    look = door.rows
    door.intake = Intake(door.store, committed, ManualClock())
    started(door).submit([signal("a")])
    door.intake.stop()
    assert seen == [["a"]]
