"""INTENT and OUTCOME as rows and records; a repeated look that says the same adds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from remediator.audit import chain
from remediator.model.incident import Incident
from remediator.model.plan import Again, Done, Hold, Outcome, StepRow, StepState, Unknown, Wait
from remediator.store import incidents, steps
from remediator.store.engine import open_store
from remediator.workflow.journal import MAX_BACKOFF_S, Journal, backoff, settled

NOW = 1_800_000_000.0
ROW = StepRow("i1", "drain-slurm", "", "main", 1, "running", attempt=2, due_at=NOW - 1, started_at=NOW - 3)
INCIDENT = Incident(
    id="i1", key="k", node="gpu-0", node_uid="u", boot_id="b", slurm_nodes=("w-0",), tier="T0", rule="r",
    cause="XID 79", plan="replace", sentence="because", fault_at=NOW, opened_at=NOW,
)  # fmt: skip
SETTLED: list[tuple[Outcome, StepState, float]] = [
    (Wait("soon", after=3.0), "waiting", NOW + 3.0),
    (Wait("at once", after=0.0), "waiting", NOW),
    (Unknown("lost answer", after=0.2), "waiting", NOW + 0.2),
    (Again("refused", after=1.0), "waiting", NOW + 1.0),
    (Hold("a person", after=10.0), "held", NOW + 10.0),
]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sa.Connection]:
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    with store.write() as connection:
        incidents.insert(connection, INCIDENT)
        steps.insert(connection, [ROW])
        yield connection
    store.close()


@pytest.fixture
def journal() -> Journal:
    return Journal("me", 4)


def saved(connection: sa.Connection) -> StepRow:
    (row,) = steps.of_incident(connection, "i1")
    return row


def records(connection: sa.Connection) -> list[dict[str, Any]]:
    return list(chain.read(connection))


@pytest.mark.parametrize(("outcome", "state", "due_at"), SETTLED)
def test_each_outcome_leaves_the_step_where_it_says(
    outcome: Outcome, state: StepState, due_at: float
) -> None:
    row = settled(ROW, outcome, NOW)
    assert (row.state, row.due_at, row.sentence, row.ended_at) == (state, due_at, outcome.sentence, None)


def test_done_ends_the_step_and_keeps_earlier_facts() -> None:
    row = settled(replace(ROW, facts={"a": 1, "b": 1}), Done("drained", {"b": 2}), NOW)
    assert (row.state, row.ended_at, row.facts) == ("done", NOW, {"a": 1, "b": 2})


def test_the_first_start_is_kept() -> None:
    assert settled(ROW, Wait("x"), NOW).started_at == NOW - 3
    assert settled(replace(ROW, started_at=None), Wait("x"), NOW).started_at == NOW


def test_the_time_of_a_hold_does_not_count() -> None:
    """What was held for an hour is not an hour late when it goes on."""
    assert settled(replace(ROW, state="held"), Wait("x"), NOW).started_at == NOW


def test_what_is_tried_again_is_looked_at_first_and_at_doubling_distances() -> None:
    """However long a server is away: a look needs no INTENT and leaves no record of its own."""
    row, pauses = ROW, []
    for _ in range(6):
        row = settled(row, Again("refused", after=1.0), NOW)
        pauses.append(row.due_at - NOW)
    assert (row.state, pauses) == ("waiting", [1, 2, 4, 8, 10, 10])
    assert settled(settled(row, Wait("so far"), NOW), Again("refused", after=1.0), NOW).due_at == NOW + 1


def test_a_refused_act_is_tried_at_growing_distances_and_a_look_keeps_its_pace() -> None:
    row, pauses = ROW, []
    for _ in range(6):
        row = settled(replace(row, state="running"), Hold("a budget forbids it", after=10.0), NOW)
        pauses.append(row.due_at - NOW)
        row = settled(row, Hold("a budget forbids it", after=10.0), NOW)
        assert row.due_at == NOW + 10
    assert pauses == [10, 20, 40, 80, 120, 120]
    assert settled(replace(ROW, state="running"), Hold("later", after=600.0), NOW).due_at == NOW + 600


@pytest.mark.parametrize(
    ("after", "attempt", "delay"),
    [
        (1, 0, 1),
        (1, 1, 1),
        (1, 2, 2),
        (1, 3, 4),
        (1, 4, 8),
        (1, 5, 10),
        (1, 1000, 10),
        (0.5, 3, 2),
        (30, 9, 30),
    ],
)
def test_attempts_come_at_doubling_distances(after: float, attempt: int, delay: float) -> None:
    assert backoff(after, attempt) == delay


@given(after=st.floats(0, 600), attempt=st.integers(0, 10_000))
def test_no_attempt_comes_sooner_than_asked_or_after_minutes(after: float, attempt: int) -> None:
    assert after <= backoff(after, attempt) <= max(MAX_BACKOFF_S, after)
    assert backoff(after, attempt) <= backoff(after, attempt + 1)


def test_an_intent_is_a_row_and_a_record_that_say_the_same(
    connection: sa.Connection, journal: Journal
) -> None:
    row = journal.intent(connection, INCIDENT, replace(ROW, state="pending"), "set DRAIN on w-0", NOW)
    assert saved(connection) == row
    assert (row.state, row.attempt, row.acted_at, row.started_at) == ("running", 3, NOW, NOW - 3)
    (record,) = records(connection)
    assert (record["action"], record["operation"], record["epoch"], record["actor"]) == (
        "intent", "i1:drain-slurm:3", 4, "me",
    )  # fmt: skip
    assert (record["detail"], record["target"], record["why"]) == (
        {"act": "set DRAIN on w-0"}, "gpu-0", "because",
    )  # fmt: skip


def test_an_outcome_is_a_row_and_a_record_of_the_same_operation(
    connection: sa.Connection, journal: Journal
) -> None:
    row = journal.outcome(connection, INCIDENT, ROW, Done("drained", {"seen_at": 1}), NOW)
    assert saved(connection) == row
    (record,) = records(connection)
    assert (record["action"], record["outcome"], record["operation"]) == (
        "outcome", "done", "i1:drain-slurm:2",
    )  # fmt: skip
    assert (record["why"], record["detail"]) == ("drained", {"seen_at": 1})
    assert (record["incident"], record["step"], record["subject"]) == ("i1", "drain-slurm", "")


@pytest.mark.parametrize("outcome", [Wait("saving"), Unknown("lost"), Again("down"), Hold("a person")])
def test_a_repeated_look_that_says_the_same_adds_no_record(
    connection: sa.Connection, journal: Journal, outcome: Outcome
) -> None:
    row = journal.outcome(connection, INCIDENT, ROW, outcome, NOW)
    for later in range(1, 5):
        row = journal.outcome(connection, INCIDENT, row, outcome, NOW + later)
    assert len(records(connection)) == 1
    assert saved(connection).due_at > NOW + 4


def test_a_look_that_says_something_new_adds_one(connection: sa.Connection, journal: Journal) -> None:
    row = journal.outcome(connection, INCIDENT, ROW, Wait("saving"), NOW)
    row = journal.outcome(connection, INCIDENT, row, Wait("queued"), NOW)
    row = journal.outcome(connection, INCIDENT, row, Hold("queued"), NOW)
    journal.outcome(connection, INCIDENT, row, Done("queued"), NOW)
    assert [record["outcome"] for record in records(connection)] == ["wait", "wait", "hold", "done"]


def test_every_attempt_has_its_outcome_even_if_it_says_the_same(
    connection: sa.Connection, journal: Journal
) -> None:
    row = ROW
    for _ in range(3):
        row = journal.outcome(connection, INCIDENT, replace(row, state="running"), Again("down"), NOW)
    assert len(records(connection)) == 3


def test_overdue_is_written_into_row_and_record(connection: sa.Connection, journal: Journal) -> None:
    row = journal.overdue(connection, INCIDENT, replace(ROW, sentence="w-0 is busy"), NOW)
    assert row.overdue
    assert saved(connection).overdue
    (record,) = records(connection)
    assert (record["action"], record["step"], record["why"]) == ("overdue", "drain-slurm", "w-0 is busy")


def test_a_record_without_an_incident_stands_by_itself(connection: sa.Connection, journal: Journal) -> None:
    journal.record(connection, "paused", None, NOW, why="a person said so")
    (record,) = records(connection)
    assert (record["incident"], record["target"], record["operation"]) == ("", "", "")


def test_entries_are_taken_once(connection: sa.Connection, journal: Journal) -> None:
    journal.record(connection, "paused", None, NOW)
    assert [entry.action for entry in journal.take()] == ["paused"]
    assert journal.take() == ()
