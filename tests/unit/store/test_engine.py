from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.errors import Fenced, GiveUp, Retry
from remediator.store import leadership, schema
from remediator.store.engine import Store, journal_mode, open_read_only, open_store


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


def test_an_expired_lease_can_be_taken_and_not_renewed(store: Store) -> None:
    with store.write() as connection:
        leadership.acquire(connection, "a", -1.0)
        assert not leadership.renew(connection, 1, 10.0)
        assert leadership.acquire(connection, "b", 10.0) == 2
