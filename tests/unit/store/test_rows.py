"""What the schema itself promises, whatever the code above it does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.errors import GiveUp, Retry
from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.store import engine, incidents, signals, steps
from remediator.store.engine import Store, open_read_only, open_store

RUN = JobRun(job_id=7, submit_time=100, restart_count=0, address="7", nodes=("w-0", "w-1"))


def incident(name: str = "i1", **changes: Any) -> Incident:
    base: dict[str, Any] = {
        "id": name, "key": "k", "node": "gpu-0", "node_uid": "u", "boot_id": "b", "slurm_nodes": ("w-0",),
        "tier": "T0", "rule": "r", "cause": "XID 79", "plan": "replace", "fault_at": 1.0, "opened_at": 2.0,
    }  # fmt: skip
    return Incident(**(base | changes))


def signal(name: str, **changes: Any) -> Signal:
    base: dict[str, Any] = {
        "source": "agent", "node": "gpu-0", "boot_id": "b", "kind": "xid", "code": 79, "pci": None,
        "seen_at": 1.0, "received_at": 1.0, "dedupe": name, "detail": {"extra": {"a": 1}},
    }  # fmt: skip
    return Signal(**(base | changes))


def row(name: str, *, of: str = "i1", subject: str = "", **changes: Any) -> StepRow:
    return replace(StepRow(of, name, subject, "main", 1, "pending"), **changes)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    yield store
    store.close()


@pytest.fixture
def connection(store: Store) -> Iterator[sa.Connection]:
    with store.write() as connection:
        yield connection


def test_an_incident_comes_back_as_it_went_in(connection: sa.Connection) -> None:
    new = incident(slurm_nodes=("w-0", "w-1"), closed_at=None)
    incidents.insert(connection, new)
    assert incidents.get(connection, "i1") == new
    assert incidents.get(connection, "i2") is None


@pytest.mark.parametrize("state", ["open", "held"])
def test_two_open_incidents_of_one_machine_are_impossible(connection: sa.Connection, state: str) -> None:
    incidents.insert(connection, incident("i1", state=state))
    with pytest.raises(sa.exc.IntegrityError):
        incidents.insert(connection, incident("i2", state="held"))


def test_another_machine_or_a_closed_one_is_no_obstacle(connection: sa.Connection) -> None:
    incidents.insert(connection, incident("i1"))
    incidents.insert(connection, incident("i2", key="k2"))
    incidents.update(connection, "i1", state="closed", closed_at=3.0)
    incidents.insert(connection, incident("i3"))
    assert incidents.open_for(connection, "k") == incident("i3")
    assert incidents.open_count(connection) == 2


def test_a_closed_incident_cannot_be_opened_beside_another(connection: sa.Connection) -> None:
    incidents.insert(connection, incident("i1", state="closed", closed_at=3.0))
    incidents.insert(connection, incident("i2"))
    with pytest.raises(sa.exc.IntegrityError):
        incidents.update(connection, "i1", state="open")


def test_the_last_closed_incident_is_the_newest(connection: sa.Connection) -> None:
    for name, at in (("i1", 5.0), ("i2", 9.0), ("i3", 7.0)):
        incidents.insert(connection, incident(name, state="closed", closed_at=at))
    incidents.insert(connection, incident("i4"))
    last = incidents.last_closed(connection, "k")
    assert last is not None
    assert last.id == "i2"
    assert incidents.last_closed(connection, "other") is None


def test_only_incidents_with_steps_run_and_only_held_ones_without_wait_at_the_door(
    connection: sa.Connection,
) -> None:
    states = {"i1": "open", "i2": "held", "i3": "held", "i4": "closed"}
    for name, state in states.items():
        incidents.insert(connection, incident(name, key=name, state=state))
    steps.insert(connection, [row("admit", of=name) for name in ("i1", "i2", "i4")])
    assert [found.id for found in incidents.held_at_the_door(connection)] == ["i3"]
    assert {found.id for found in incidents.all_open(connection)} == {"i1", "i2", "i3"}


def test_recent_incidents_come_newest_first_and_no_more_than_asked(connection: sa.Connection) -> None:
    for number in range(5):
        incidents.insert(connection, incident(f"i{number}", key=f"k{number}", opened_at=float(number)))
    assert [found.id for found in incidents.recent(connection, 3)] == ["i4", "i3", "i2"]


def test_a_step_belongs_to_an_incident_and_stands_once(connection: sa.Connection) -> None:
    with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
        steps.insert(connection, [row("admit", of="nobody")])
    incidents.insert(connection, incident())
    steps.insert(connection, [row("release-jobs", subject="7"), row("release-jobs", subject="8")])
    with pytest.raises(sa.exc.IntegrityError):
        steps.insert(connection, [row("release-jobs", subject="7")])


def test_a_step_comes_back_as_it_went_in_and_changes_alone(connection: sa.Connection) -> None:
    incidents.insert(connection, incident())
    first = row("release-jobs", subject="7", facts={"nodes": ["w-0"]}, overdue=True, acted_at=3.0)
    second = row("release-jobs", subject="8")
    steps.insert(connection, [first, second])
    steps.update(connection, second, state="held", sentence="a person")
    assert steps.of_incident(connection, "i1") == [first, replace(second, state="held", sentence="a person")]


def test_the_first_incident_owns_a_run_and_later_ones_watch_it(connection: sa.Connection) -> None:
    incidents.insert(connection, incident("i1"))
    incidents.insert(connection, incident("i2", key="k2"))
    assert steps.claim_run(connection, "test", "i1", RUN) == "i1"
    assert steps.claim_run(connection, "test", "i2", RUN) == "i1"
    assert steps.claim_run(connection, "test", "i1", RUN) == "i1"
    for name in ("i1", "i2"):
        assert steps.runs_seen(connection, name) == [RUN]


@pytest.mark.parametrize(
    "other",
    [{"restart_count": 1}, {"submit_time": 101}, {"job_id": 8}],
    ids=lambda change: next(iter(change)),
)
def test_the_next_run_of_a_job_has_an_owner_of_its_own(
    connection: sa.Connection, other: dict[str, int]
) -> None:
    incidents.insert(connection, incident("i1"))
    incidents.insert(connection, incident("i2", key="k2"))
    steps.claim_run(connection, "test", "i1", RUN)
    assert steps.claim_run(connection, "test", "i2", RUN.model_copy(update=other)) == "i2"


def test_the_same_job_number_of_another_cluster_is_another_run(connection: sa.Connection) -> None:
    incidents.insert(connection, incident("i1"))
    incidents.insert(connection, incident("i2", key="k2"))
    steps.claim_run(connection, "here", "i1", RUN)
    assert steps.claim_run(connection, "there", "i2", RUN) == "i2"


def test_only_new_signals_are_counted(connection: sa.Connection) -> None:
    assert signals.insert_new(connection, [signal("a"), signal("b"), signal("a")]) == 2
    assert signals.insert_new(connection, [signal("b"), signal("c")]) == 1
    assert signals.insert_new(connection, []) == 0


def test_a_repeated_delivery_changes_nothing(connection: sa.Connection) -> None:
    signals.insert_new(connection, [signal("a")])
    signals.insert_new(connection, [signal("a", node="gpu-9", received_at=99.0)])
    assert signals.unhandled(connection, signals.FIRST, 10, 0.0)[0][1] == signal("a")


def test_unjudged_signals_come_oldest_first_in_pages(connection: sa.Connection) -> None:
    signals.insert_new(connection, [signal(name) for name in "abcde"])
    first = signals.unhandled(connection, signals.FIRST, 2, 0.0)
    second = signals.unhandled(connection, first[-1][0], 9, 0.0)
    assert [found.dedupe for _, found in [*first, *second]] == list("abcde")
    assert len(first) == 2


def test_a_judged_signal_is_evidence_of_its_incident_and_never_judged_again(
    connection: sa.Connection,
) -> None:
    signals.insert_new(connection, [signal(name) for name in "abc"])
    (one, _), (two, _), _ = signals.unhandled(connection, signals.FIRST, 9, 0.0)
    verdicts = [signals.Verdict(one.row, "opens", "i1"), signals.Verdict(two.row, "only recorded", None)]
    signals.settle(connection, 9.0, verdicts)
    assert [found.dedupe for _, found in signals.unhandled(connection, signals.FIRST, 9, 0.0)] == ["c"]
    assert signals.of_incident(connection, "i1") == [signal("a")]


def test_a_signal_that_waits_is_counted_and_comes_back_when_it_is_due(connection: sa.Connection) -> None:
    signals.insert_new(connection, [signal(name) for name in "abc"])
    (one, _), (two, _), _ = signals.unhandled(connection, signals.FIRST, 9, 0.0)
    signals.defer(connection, {one.row: 60.0, two.row: 30.0})
    assert [found.dedupe for _, found in signals.unhandled(connection, signals.FIRST, 9, 29.0)] == ["c"]
    assert signals.waiting(connection) == (2, 30.0)
    due = signals.unhandled(connection, signals.FIRST, 9, 60.0)
    assert [found.dedupe for _, found in due] == ["c", "b", "a"]


def test_a_reader_creates_no_store(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match="no readable store"):
        open_read_only(f"sqlite:///{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_can_read_and_not_write(tmp_path: Path, store: Store) -> None:
    with store.write() as connection:
        incidents.insert(connection, incident())
    reader = open_read_only(f"sqlite:///{tmp_path}/s.db")
    with reader.read() as connection:
        assert incidents.open_count(connection) == 1
    with pytest.raises(Retry, match="readonly"), reader.write() as connection:
        incidents.update(connection, "i1", state="held")
    reader.close()


def test_a_reader_leaves_the_journal_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with another SQLite library must not switch a running controller's journal."""
    monkeypatch.setattr(engine, "journal_mode", lambda: "TRUNCATE")
    open_store(f"sqlite:///{tmp_path}/s.db").close()
    monkeypatch.setattr(engine, "journal_mode", lambda: "WAL")
    open_read_only(f"sqlite:///{tmp_path}/s.db").close()
    raw = sqlite3.connect(tmp_path / "s.db")
    assert raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal"
    raw.close()
