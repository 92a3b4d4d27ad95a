"""A turn is one transaction of the present leader, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.errors import Fenced
from remediator.model.plan import Again, Done, Hold, Wait
from remediator.run.core import RECONSIDER_S
from remediator.store import incidents, leadership, schema
from remediator.workflow.calls import Answer, Call, answers
from tests.unit.run.deciding import Deciding


@pytest.fixture
def here(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


def everything(here: Deciding) -> dict[str, list[tuple[object, ...]]]:
    with here.store.read() as connection:
        tables = schema.metadata.sorted_tables
        return {t.name: [tuple(row) for row in connection.execute(sa.select(t))] for t in tables}


def take_over(here: Deciding) -> None:
    with here.store.write() as connection:
        leadership.acquire(connection, "another", 10.0, sole=True)


def test_a_superseded_epoch_is_fenced_and_writes_nothing(here: Deciding) -> None:
    here.signal("gpu-0")
    take_over(here)
    before = everything(here)
    with pytest.raises(Fenced) as caught:
        here.turn()
    assert caught.value.epoch == 1
    assert everything(here) == before


def test_a_superseded_epoch_applies_no_answer(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    take_over(here)
    before = everything(here)
    with pytest.raises(Fenced):
        here.turn([Answer(call, Done("drained"))])
    assert everything(here) == before


def test_a_turn_that_fails_half_way_leaves_nothing_and_can_be_taken_again(
    here: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.signal("gpu-0")
    before = everything(here)

    def broken(_connection: sa.Connection) -> int:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(incidents, "open_count", broken)
        with pytest.raises(ZeroDivisionError):
            here.turn()
    assert everything(here) == before
    turn = here.turn()
    assert [call.row.name for call in turn.calls] == ["drain-slurm"]
    written = ["decision", "incident-opened", "outcome", "intent", "intent"]
    assert [entry.action for entry in turn.entries] == written


def test_a_read_begins_for_what_is_handed_out_and_for_nothing_else(here: Deciding) -> None:
    here.signal("gpu-0")
    turn = here.turn()
    assert [call.row.name for call in here.asked_early] == ["drain-slurm"]
    assert list(turn.calls) == here.asked_early
    here.turn()
    assert len(here.asked_early) == 1


def test_a_call_that_is_with_a_worker_is_not_handed_out_again(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    assert here.turn().calls == ()
    assert call.then is not None
    assert here.turn([Answer(call, Done("drained"))]).calls == ()
    (later,) = here.turn([Answer(call.then, Hold("busy", after=0.0))]).calls
    assert later.row.name == "fence-node"


def test_a_new_life_hands_out_what_the_old_one_left(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    here.turn([Answer(call, Done("drained"))])
    take_over(here)
    here.core = here.life(2)
    (again,) = here.turn().calls
    assert (again.row.name, again.row.state, again.may_act) == ("fence-node", "running", False)


def test_outcome_and_next_intent_are_committed_together(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    here.turn(fails(call))
    here.clock.advance(1.0)
    (again,) = here.turn().calls
    turn = here.turn([Answer(again, Done("drained"))])
    assert [(entry.action, entry.step) for entry in turn.entries] == [
        ("outcome", "drain-slurm"),
        ("intent", "fence-node"),
    ]
    assert turn.calls[0].may_act


def fails(call: Call) -> list[Answer]:
    """The drain has to be tried again, and so the fence's turn does not come."""
    return answers(call, lambda _: Again("busy"))


def test_drain_and_fence_are_committed_to_together(here: Deciding) -> None:
    """No commit stands between the DRAIN that is seen and the cordon."""
    here.signal("gpu-0")
    turn = here.turn()
    intents = [entry.step for entry in turn.entries if entry.action == "intent"]
    assert intents == ["drain-slurm", "fence-node"]
    (call,) = turn.calls
    assert [name for _, name, _ in sorted(call.places)] == intents


def test_a_fence_whose_drain_failed_is_as_if_it_had_never_been_handed_out(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    turn = here.turn(fails(call))
    assert turn.calls == ()
    assert [(entry.step, entry.outcome) for entry in turn.entries] == [
        ("drain-slurm", "retry"),
        ("fence-node", "not-begun"),
    ]
    (fence,) = [row for row in here.steps(call.incident.id) if row.name == "fence-node"]
    assert (fence.state, fence.started_at, fence.acted_at) == ("pending", None, None)


def test_only_the_first_attempt_of_a_drain_takes_the_fence_along(here: Deciding) -> None:
    """Slurm may be away for long: one record of it is enough."""
    here.signal("gpu-0")
    (call,) = here.turn().calls
    here.turn(fails(call))
    here.clock.advance(1.0)
    (again,) = here.turn().calls
    assert (again.row.name, again.then) == ("drain-slurm", None)


@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        (lambda: Wait("soon", after=2.0), 2.0),
        (lambda: Hold("later", after=3.5), 3.5),
        (lambda: Wait("much later", after=60.0), RECONSIDER_S),
    ],
)
def test_it_comes_back_when_the_first_step_is_due_but_at_least_every_few_seconds(
    here: Deciding, outcome: Callable[[], Wait | Hold], after: float
) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    turn = here.turn([Answer(call, outcome())])
    assert turn.calls == ()
    assert turn.wake_at == here.clock.now() + after
    here.clock.advance(after)
    assert bool(here.turn().calls) == (after != RECONSIDER_S)


def test_an_idle_core_still_looks_now_and_then(here: Deciding) -> None:
    assert here.turn().wake_at == here.clock.now() + RECONSIDER_S
