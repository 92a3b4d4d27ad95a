"""Opening the store: pragmas, schema version, and the two kinds of transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from remediator.errors import GiveUp, RemediatorError, Retry
from remediator.store import schema

# The WAL-reset bug (fixed in 3.51.3) can corrupt the file: older libraries get a rollback journal.
WAL_SAFE = (3, 51, 3)
BUSY_TIMEOUT_MS = 4000
_READER = ("query_only=ON",)  # and no journal mode: that would be a change, made beside a running controller
# What SQLite says, and what a person can do about it.
NEXT_STEPS = {
    "not a database": "this is no store of the service: correct store.url, or restore a backup",
    "malformed": "the file is damaged: restore a backup",
    "no such table": "this is no store of the service: correct store.url, or start the controller once",
    "readonly": "make the file and its folder writable for the service",
    "is full": "make room on its disk",
    "disk I/O error": "look at its disk, then restart",
    "locked": "another process holds it: try again, or end that process",
}


class Store:
    """One database; `write` takes the writer's lock at once, `read` sees one moment."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self.engine = _engine(url, _READER if read_only else _writer())
        self.dialect = self.engine.dialect.name
        self._writer = threading.Lock()
        self._waiting: deque[None] = deque()  # one of each thread that waits for the lock

    @property
    def is_wanted(self) -> bool:
        """Whether another thread waits for the transaction that is being written to end."""
        return bool(self._waiting)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that commits when the block ends; Retry when the store does not take it."""
        try:
            with self._alone(), self.engine.connect() as connection, connection.begin():
                if self.dialect == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        except DatabaseError as error:
            raise _typed(error) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """SQLite has one writer, and one that waits for its lock looks again only every 100 ms: threads of
        one process wait for each other here.
        """
        if self.dialect != "sqlite":
            yield
            return
        self._waiting.append(None)
        taken = self._writer.acquire(timeout=BUSY_TIMEOUT_MS / 1000)
        self._waiting.pop()
        if not taken:
            raise Retry("store: another thread has been writing for too long", after=0.5)
        try:
            yield
        finally:
            self._writer.release()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent read; Retry when the store does not answer."""
        try:
            with self.engine.connect() as connection, connection.begin():
                if self.dialect == "sqlite":
                    connection.exec_driver_sql("BEGIN")
                yield connection
        except DatabaseError as error:
            raise _typed(error) from error

    def close(self) -> None:
        """Release all connections."""
        self.engine.dispose()


def open_store(url: str) -> Store:
    """Open and, when empty, create the schema; GiveUp on a damaged file or a newer schema."""
    try:
        store = Store(url)
        with store.write() as connection:
            _check_file(connection, store.dialect)
            schema.metadata.create_all(connection)
            _add_columns(connection)
            _add_indexes(connection)
            _check_version(connection)
    except (SQLAlchemyError, Retry) as error:
        raise GiveUp(f"store.url: cannot open the store: {_short(error)}") from error
    return store


def open_read_only(url: str) -> Store:
    """Open an existing store without creating or changing anything; GiveUp when there is none."""
    store = Store(url, read_only=True)
    file = store.engine.url.database
    if store.dialect == "sqlite" and file and not Path(file).exists():
        raise GiveUp(
            f"store.url: no readable store there: {file} does not exist; has the controller started?"
        )
    try:
        with store.read() as connection:
            _check_version(connection)
    except (SQLAlchemyError, Retry) as error:
        raise GiveUp(f"store.url: no readable store there: {_short(error)}") from error
    return store


def journal_mode() -> str:
    """WAL where the linked SQLite is known to be safe, else the rollback journal."""
    return "WAL" if sqlite3.sqlite_version_info >= WAL_SAFE else "TRUNCATE"


def _writer() -> tuple[str, ...]:
    return (f"journal_mode={journal_mode()}", "synchronous=EXTRA", "foreign_keys=ON")


def _engine(url: str, pragmas: tuple[str, ...]) -> sa.Engine:
    engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", partial(_set_pragmas, pragmas))
    return engine


def _set_pragmas(pragmas: tuple[str, ...], connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by Store, never by the driver
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
        connection.execute(f"PRAGMA {pragma}")


def _check_file(connection: sa.Connection, dialect: str) -> None:
    if dialect == "sqlite":
        verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if verdict != "ok":
            raise GiveUp(f"store.url: the database file is damaged ({verdict}); restore a backup")


def _add_columns(connection: sa.Connection) -> None:
    """Columns that an older program did not know; each has a default that means what it meant without."""
    known = sa.inspect(connection)
    for table in schema.metadata.tables.values():
        present = {column["name"] for column in known.get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                text = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {text}")


def _add_indexes(connection: sa.Connection) -> None:
    """Indexes that an older program did not know; they change no meaning, so they need no version."""
    for table in schema.metadata.tables.values():
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _check_version(connection: sa.Connection) -> None:
    found = connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")).scalar()
    if found is None:
        connection.execute(sa.insert(schema.meta).values(key="schema", value=str(schema.VERSION)))
    elif not str(found).isdecimal():
        raise GiveUp(f"store.url: schema {found!r:.40} is no number: {NEXT_STEPS['malformed']}")
    elif int(found) > schema.VERSION:
        raise GiveUp(
            f"store.url: schema {found} is newer than this program knows ({schema.VERSION}): "
            "run the newer program, or restore the backup made before it"
        )


def _typed(error: DatabaseError) -> Exception:
    """An error of the database by what the caller should do; a broken constraint stays what it is."""
    if isinstance(error, OperationalError):
        return Retry(f"store: {_short(error)}", after=0.5)
    return GiveUp(f"store.url: {_short(error)}") if type(error) is DatabaseError else error


def _short(error: Exception) -> str:
    """What the database said, in one line, with the next step; an error of ours has it already."""
    if isinstance(error, RemediatorError):
        return str(error).removeprefix("store: ")
    said = str(getattr(error, "orig", None) or error).splitlines()[0]
    steps = (step for words, step in NEXT_STEPS.items() if words in said)
    return f"{said}; {next(steps, 'check path and permissions')}"
