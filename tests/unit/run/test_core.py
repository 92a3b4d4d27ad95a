"""A turn is one transaction of the present leader, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.errors import Fenced
from remediator.model.plan import Done, Hold, Wait
from remediator.run.core import RECONSIDER_S
from remediator.store import incidents, leadership, schema
from remediator.workflow.engine import Answer
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
    assert [entry.action for entry in turn.entries] == ["decision", "incident-opened", "outcome", "intent"]


def test_a_call_that_is_with_a_worker_is_not_handed_out_again(here: Deciding) -> None:
    here.signal("gpu-0")
    (call,) = here.turn().calls
    assert here.turn().calls == ()
    (following,) = here.turn([Answer(call, Done("drained"))]).calls
    assert following.row.name == "fence-node"


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
    turn = here.turn([Answer(call, Done("drained"))])
    assert [(entry.action, entry.step) for entry in turn.entries] == [
        ("outcome", "drain-slurm"),
        ("intent", "fence-node"),
    ]
    assert turn.calls[0].may_act


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
