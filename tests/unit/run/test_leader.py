"""Leadership is taken once, survives a refused renewal until it ends, and is lost exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.clock import ManualClock
from remediator.errors import GiveUp, Retry
from remediator.guard import Lease
from remediator.run.leader import Leader, lock_file
from remediator.settings import Leadership
from remediator.store import leadership, schema
from remediator.store.engine import Store, open_store

SETTINGS = Leadership(lease_s=10.0, renew_s=0.1)


class ShakyStore(Store):
    """A real store that calls `before` first, which may refuse."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.before: Callable[[], None] = lambda: None
        self.writes = 0

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        self.writes += 1
        self.before()
        with super().write() as connection:
            yield connection


class Holder:
    """A leader on a real store in virtual time."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder}/s.db"
        open_store(url).close()
        self.store = ShakyStore(url)
        self.clock = ManualClock()
        self.lost: list[Lease | None] = []
        self.leader = Leader(
            self.store, SETTINGS, self.clock, lambda: self.lost.append(self.leader.current())
        )

    def take_over(self) -> None:
        """Somebody else becomes leader."""
        with self.store.write() as connection:
            leadership.acquire(connection, "another", 10.0, sole=True)

    def set_clock(self, seconds: float) -> None:
        """The database's clock was set by this: the row's lease is dated by the clock of before."""
        with self.store.write() as connection:
            column = schema.leadership.c.expires_at
            connection.execute(sa.update(schema.leadership).values(expires_at=column - seconds))

    def expire(self) -> None:
        """The row's lease has ended by the database's clock."""
        with self.store.write() as connection:
            connection.execute(sa.update(schema.leadership).values(expires_at=0.0))


@pytest.fixture
def holder(tmp_path: Path) -> Holder:
    return Holder(tmp_path)


def test_the_first_life_leads_at_once(holder: Holder) -> None:
    start = holder.clock.steady()
    assert holder.leader.acquire("me", sole=False) == 1
    assert holder.leader.current() == Lease(1, start + 10.0)


def test_before_it_is_acquired_there_is_no_lease(holder: Holder) -> None:
    assert holder.leader.current() is None


def test_a_held_lease_is_waited_for(holder: Holder) -> None:
    holder.take_over()
    tries: list[float] = []

    def before() -> None:
        tries.append(holder.clock.now())
        if len(tries) == 4:
            holder.store.before = lambda: None
            holder.expire()

    holder.store.before = before
    assert holder.leader.acquire("me", sole=False) == 2
    assert [round(at - tries[0], 3) for at in tries] == [0.0, 0.1, 0.2, 0.3]


def test_a_sole_process_waits_for_nobody(holder: Holder) -> None:
    holder.take_over()
    start = holder.clock.now()
    assert holder.leader.acquire("me", sole=True) == 2
    assert holder.clock.now() == start


def test_a_store_that_does_not_answer_is_asked_again(holder: Holder) -> None:
    refusals = [Retry("locked"), Retry("locked")]

    def before() -> None:
        if refusals:
            raise refusals.pop()

    holder.store.before = before
    assert holder.leader.acquire("me", sole=False) == 1
    assert holder.store.writes == 3


def test_the_lease_is_counted_from_before_the_store_was_asked(holder: Holder) -> None:
    """A slow commit must not lengthen what this process believes."""
    holder.store.before = lambda: holder.clock.advance(3.0)
    start = holder.clock.steady()
    holder.leader.acquire("me", sole=False)
    assert holder.leader.current() == Lease(1, start + 10.0)
    start = holder.clock.steady()
    assert holder.leader._renew()
    assert holder.leader.current() == Lease(1, start + 10.0)


def test_a_taken_row_is_lost_once_and_then_nothing_leads(holder: Holder) -> None:
    holder.leader.acquire("me", sole=False)
    holder.take_over()
    holder.leader.run()
    assert holder.lost == [None]
    assert holder.leader.current() is None


def test_a_lease_that_ran_out_is_lost_without_asking_anybody(holder: Holder) -> None:
    holder.leader.acquire("me", sole=False)
    holder.store.writes = 0
    holder.clock.advance(10.0)
    holder.leader.run()
    assert len(holder.lost) == 1
    assert holder.store.writes == 0


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_lease_outlives_a_database_whose_clock_is_set(holder: Holder, seconds: float) -> None:
    holder.leader.acquire("me", sole=False)
    holder.set_clock(seconds)
    assert holder.leader._renew()
    with holder.store.read() as connection:
        assert leadership.holder(connection) == "me"


def test_a_dead_holder_is_followed_although_the_databases_clock_was_set_back(holder: Holder) -> None:
    """Its lease would last for another hour; the row that nobody renews says that it has ended."""
    holder.take_over()
    holder.set_clock(-3600.0)
    start = holder.clock.steady()
    assert holder.leader.acquire("me", sole=False) == 2
    assert 10.0 < holder.clock.steady() - start < 11.0


def test_a_living_holder_is_not_followed_after_the_clock_was_set_back(holder: Holder) -> None:
    holder.take_over()
    holder.set_clock(-3600.0)
    renewals = 0

    def before() -> None:
        nonlocal renewals
        renewals += 1
        holder.clock.advance(1.0)
        if renewals == 25:  # then it dies
            holder.store.before = lambda: None
        with Store.write(holder.store) as connection:
            connection.execute(sa.update(schema.leadership).values(expires_at=2e9 + renewals))

    holder.store.before = before
    start = holder.clock.steady()
    assert holder.leader.acquire("me", sole=False) == 2
    assert holder.clock.steady() - start > 25.0 + 10.0


def test_without_a_lease_there_is_nothing_to_renew(holder: Holder) -> None:
    holder.leader.run()
    assert len(holder.lost) == 1
    assert holder.store.writes == 0


def test_refused_renewals_are_survived_until_the_lease_ends(holder: Holder) -> None:
    holder.leader.acquire("me", sole=False)
    kept = holder.leader.current()
    seen: list[Lease | None] = []

    def before() -> None:
        seen.append(holder.leader.current())
        holder.clock.advance(4.0)
        raise Retry("locked")

    holder.store.before = before
    holder.leader.run()
    assert seen == [kept, kept, kept]
    assert len(holder.lost) == 1


def test_one_refused_renewal_changes_nothing(holder: Holder) -> None:
    holder.leader.acquire("me", sole=False)
    count = 0

    def before() -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise Retry("locked")
        if count == 3:
            holder.leader.stop()

    holder.store.before = before
    holder.leader.run()
    assert holder.lost == []
    assert holder.leader.current() is not None


def test_stop_keeps_the_lease_and_loses_nothing(holder: Holder) -> None:
    holder.leader.acquire("me", sole=False)
    holder.leader.stop()
    holder.leader.run()
    assert holder.lost == []


def test_a_second_process_is_refused_the_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    assert lock_file(url) is not None
    code = (
        "import sys; from remediator.run.leader import lock_file; from remediator.errors import GiveUp\n"
        "try: lock_file(sys.argv[1])\n"
        "except GiveUp as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=True)
    assert "another controller uses this file" in done.stdout


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    code = "import os, sys; from remediator.run.leader import lock_file; lock_file(sys.argv[1]); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, url], check=False).returncode == 9
    assert lock_file(url) is not None


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match=r"store\.url.*nowhere"):
        lock_file(f"sqlite:///{tmp_path}/nowhere/s.db")


def test_a_server_database_needs_no_file_lock() -> None:
    assert lock_file("postgresql+psycopg://db/remediator") is None
