from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.errors import Fenced, GiveUp, Retry
from remediator.store import engine, leadership, schema
from remediator.store.engine import Store, journal_mode, open_read_only, open_store

Opener = Callable[[str], Store]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/s.db")


def test_pragmas_survive_power_loss(store: Store) -> None:
    with store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == journal_mode().lower()


def test_wal_only_where_the_linked_sqlite_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    assert journal_mode() == "TRUNCATE"
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert journal_mode() == "WAL"


def test_a_newer_schema_is_refused(tmp_path: Path, store: Store) -> None:
    with store.write() as connection:
        connection.execute(sa.update(schema.meta).values(value="99"))
    with pytest.raises(GiveUp, match="newer"):
        open_store(f"sqlite:///{tmp_path}/s.db")


def spoil(statement: str, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("opener", [open_store, open_read_only])
@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("99", r"schema 99 is newer .*: run the newer program"),
        ("banana", r"schema 'banana' is no number: .*restore a backup"),
        ("", r"schema '' is no number"),
        ("-1", r"schema '-1' is no number"),
    ],
)
def test_a_version_that_is_not_ours_is_told_with_the_next_step(
    tmp_path: Path, store: Store, version: str, says: str, opener: Opener
) -> None:
    spoil(f"UPDATE meta SET value = '{version}' WHERE key = 'schema'", tmp_path / "s.db")
    before = (tmp_path / "s.db").read_bytes()
    with pytest.raises(GiveUp, match=rf"^store\.url: {says}"):
        opener(f"sqlite:///{tmp_path}/s.db")
    assert (tmp_path / "s.db").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no such table: meta; this is no store of the service"),
        (b"no database at all", "file is not a database; this is no store of the service"),
        (None, "unable to open database file; check path and permissions"),
    ],
)
def test_what_is_no_store_is_told_once_with_the_next_step(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "x.db"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(GiveUp, match=rf"^store\.url: .*{says}") as caught:
        open_read_only(f"sqlite:///{file}")
    assert "store: " not in str(caught.value)


def test_a_file_that_is_spoilt_while_it_is_open_is_an_error_for_a_person(
    tmp_path: Path, store: Store
) -> None:
    with store.write() as connection:
        connection.execute(sa.insert(schema.meta), [{"key": f"k{n}", "value": "x" * 900} for n in range(50)])
    store.close()
    whole = (tmp_path / "s.db").read_bytes()
    (tmp_path / "s.db").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(GiveUp, match=r"^store\.url: .*restore a backup"), store.read() as connection:
        connection.execute(sa.select(schema.meta)).all()


def test_a_store_that_may_not_be_written_is_told_with_the_next_step(tmp_path: Path, store: Store) -> None:
    reader = Store(f"sqlite:///{tmp_path}/s.db", read_only=True)
    with pytest.raises(Retry, match="readonly database; make the file"), reader.write() as connection:
        connection.execute(sa.insert(schema.meta).values(key="k", value="v"))


def test_a_full_disk_is_told_with_the_next_step_and_nothing_half_is_kept(store: Store) -> None:
    with store.engine.connect() as connection:
        pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
    sa.event.listen(
        store.engine, "connect", lambda raw, _record: raw.execute(f"PRAGMA max_page_count = {pages}")
    )
    store.close()
    with pytest.raises(Retry, match="full; make room on its disk"), store.write() as connection:
        connection.execute(sa.insert(schema.meta), [{"key": f"k{n}", "value": "x" * 4096} for n in range(50)])
    with store.read() as connection:
        assert connection.execute(sa.select(schema.meta.c.key)).scalars().all() == ["schema"]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"SQLite format 3\x00" + os.urandom(4096))
    with pytest.raises(GiveUp, match=r"store\.url"):
        open_store(f"sqlite:///{tmp_path}/bad.db")


@pytest.mark.parametrize("opener", [open_store, open_read_only])
def test_a_missing_folder_is_named_with_the_next_step(tmp_path: Path, opener: object) -> None:
    assert callable(opener)
    with pytest.raises(GiveUp, match=r"store\.url"):
        opener(f"sqlite:///{tmp_path}/no/such/s.db")


def test_a_locked_store_means_try_again(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("remediator.store.engine.BUSY_TIMEOUT_MS", 1)
    blocked = Store(f"sqlite:///{tmp_path}/s.db")
    with pytest.raises(Retry), blocked.write():
        pass
    other.close()


def test_threads_of_one_process_wait_for_each_other_and_not_for_the_files_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 0)  # whoever meets the file's lock is refused at once
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 30_000)

    def write(number: int) -> None:
        with store.write() as connection:
            connection.execute(sa.insert(schema.meta).values(key=f"k{number}", value=""))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    with store.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(schema.meta)).scalar() == 81


def test_a_thread_that_writes_for_too_long_makes_others_try_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 0)
    with store.write(), pytest.raises(Retry, match="another thread"), store.write():
        pass
    with store.write():
        pass


def test_epoch_rises_with_every_acquisition_and_old_epochs_are_fenced(store: Store) -> None:
    with store.write() as connection:
        assert leadership.acquire(connection, "a", 10.0) == 1
        assert leadership.acquire(connection, "b", 10.0) is None
        assert leadership.acquire(connection, "b", 10.0, sole=True) == 2
        assert not leadership.renew(connection, 1, 10.0)
        assert leadership.renew(connection, 2, 10.0)
        leadership.demand(connection, 2)
        with pytest.raises(Fenced):
            leadership.demand(connection, 1)


def test_an_expired_lease_can_be_taken_and_then_not_renewed(store: Store) -> None:
    with store.write() as connection:
        leadership.acquire(connection, "a", -1.0)
        assert leadership.acquire(connection, "b", 10.0) == 2
        assert not leadership.renew(connection, 1, 10.0)
