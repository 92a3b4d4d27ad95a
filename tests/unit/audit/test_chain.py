from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.audit import chain
from remediator.model.record import Entry, canonical
from remediator.store import schema
from remediator.store.engine import Store, open_store


def entry(number: int) -> Entry:
    return Entry(
        at=1_800_000_000.0 + number, actor="t", epoch=1, action="intent", incident="i1", why=f"w{number}"
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    with store.write() as connection:
        for number in range(5):
            chain.append(connection, entry(number))
    return store


def tamper(store: Store, statement: str) -> None:
    """What somebody with the file in hand can do: no trigger stops them."""
    with store.write() as connection:
        connection.execute(sa.text("DROP TRIGGER IF EXISTS audit_no_update"))
        connection.execute(sa.text("DROP TRIGGER IF EXISTS audit_no_delete"))
        connection.execute(sa.text(statement))


def test_untouched_chain_verifies_without_gaps(store: Store) -> None:
    with store.read() as connection:
        verdict = chain.verify(connection)
        assert [record["seq"] for record in chain.read(connection)] == [1, 2, 3, 4, 5]
    assert verdict.ok
    assert verdict.records == 5


@pytest.mark.parametrize(
    ("statement", "broken_at"),
    [
        ("UPDATE audit SET body = replace(body, 'w2', 'w9') WHERE seq = 3", 3),
        ("UPDATE audit SET incident = 'other' WHERE seq = 2", 2),
        ("UPDATE audit SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE seq = 4", 4),
        ("DELETE FROM audit WHERE seq = 3", 4),
        ("DELETE FROM audit WHERE seq = 1", 2),
        ("UPDATE audit SET seq = 99 WHERE seq = 5", 99),
    ],
)
def test_every_change_is_found_at_its_record(store: Store, statement: str, broken_at: int) -> None:
    tamper(store, statement)
    with store.read() as connection:
        verdict = chain.verify(connection)
    assert not verdict.ok
    assert verdict.broken_at == broken_at
    assert verdict.problem


@pytest.mark.parametrize("statement", ["UPDATE audit SET body = ''", "DELETE FROM audit"])
def test_the_writing_role_cannot_change_the_record(store: Store, statement: str) -> None:
    with pytest.raises(sa.exc.IntegrityError, match="append-only"), store.write() as connection:
        connection.execute(sa.text(statement))


def test_a_rolled_back_transaction_leaves_no_record(store: Store) -> None:
    with suppress(ZeroDivisionError), store.write() as connection:
        chain.append(connection, entry(6))
        raise ZeroDivisionError
    with store.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(schema.audit)).scalar() == 5
        assert chain.verify(connection).ok


@settings(max_examples=50)
@given(
    st.text(max_size=40),
    st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=4),
)
def test_canonical_form_does_not_depend_on_key_order(why: str, detail: dict[str, int | str]) -> None:
    one = Entry(at=1.5, actor="a", epoch=1, action="x", why=why, detail=detail)
    two = Entry(at=1.5, actor="a", epoch=1, action="x", why=why, detail=dict(reversed(detail.items())))
    assert canonical(one, 7) == canonical(two, 7)


class Lost(Exception):
    """Takes back what was written since."""


SAVEPOINT = st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from(["ours", "plain", "in another"]))
OUTER = st.lists(st.tuples(st.booleans(), st.lists(SAVEPOINT, max_size=4)))


@contextmanager
def nested(connection: sa.Connection, how: str) -> Iterator[None]:
    """A savepoint, the chain's own or one that it does not know of, or both."""
    with ExitStack() as stack:
        if how != "plain":
            stack.enter_context(chain.savepoint(connection))
        if how != "ours":
            stack.enter_context(connection.begin_nested())
        yield


@settings(max_examples=40, deadline=None)
@given(OUTER)
def test_what_is_taken_back_leaves_no_gap(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bool, list[tuple[bool, int, str]]]]
) -> None:
    """Transactions and savepoints in them, kept or taken back, with records before, in and after each."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('chain')}/s.db")
    for keeps, savepoints in history:
        with suppress(Lost), store.write() as connection:
            chain.append(connection, entry(0))
            for releases, count, how in savepoints:
                with suppress(Lost), nested(connection, how):
                    for number in range(count):
                        chain.append(connection, entry(number))
                    if not releases:
                        raise Lost
                chain.append(connection, entry(9))
            if not keeps:
                raise Lost
    with store.read() as connection:
        verdict = chain.verify(connection)
    assert verdict.ok, verdict
    assert verdict.records == sum(
        1 + sum(1 + count * releases for releases, count, _ in savepoints)
        for keeps, savepoints in history
        if keeps
    )
    store.close()
