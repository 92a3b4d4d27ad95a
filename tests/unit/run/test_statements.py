"""How often a turn asks the store: what cannot matter is not asked, and what many share is asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.incidents.companions import COMPANIONS_S
from remediator.run.storeview import StoreView
from remediator.settings import Budgets
from tests.unit.run.deciding import TWO_AT_ONCE, Deciding

MANY = 100


@contextmanager
def counted(here: Deciding) -> Iterator[Counter[str]]:
    """The statements that are run within, by their first words and table."""
    found: Counter[str] = Counter()

    def count(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        found[statement.split(maxsplit=1)[0]] += 1

    sa.event.listen(here.store.engine, "before_cursor_execute", count)
    yield found
    sa.event.remove(here.store.engine, "before_cursor_execute", count)


def test_a_deciding_turn_takes_few_statements(tmp_path: Path) -> None:
    here = Deciding(tmp_path, Budgets())
    here.turn()
    here.signal("gpu-0")
    with counted(here) as found:
        (call,) = here.turn().calls
    assert call.row.name == "drain-slurm"
    assert found.total() <= 44, found


@pytest.mark.parametrize(("code", "each"), [(43, 0), (48, 2)])
def test_a_storm_over_machines_without_a_past_asks_nothing_of_it(
    tmp_path: Path, code: int, each: int
) -> None:
    here = Deciding(tmp_path, Budgets())
    for number in range(MANY):
        here.add(f"gpu-{number}", shares=(("leaf", f"leaf-{number}"),))
        here.signal(f"gpu-{number}", code)
    here.turn()
    for number in range(MANY):
        here.signal(f"gpu-{number}", code)
    with counted(here) as found:
        here.turn()
    assert found.total() <= each * MANY + 25, found


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_told_often_of_a_machine_costs_the_store_as_much_as_what_is_told_once(
    tmp_path_factory: pytest.TempPathFactory, waits: bool
) -> None:
    once, often = (of_a_turn(tmp_path_factory.mktemp("store"), times, waits=waits) for times in (1, 5))
    assert often.total() <= once.total() + 10, (once, often)


def of_a_turn(folder: Path, times: int, *, waits: bool) -> Counter[str]:
    """The statements of a turn about T1 faults: the first, in which they wait, or the one that acts."""
    here = Deciding(folder, Budgets())
    for number in range(20):
        here.add(f"gpu-{number}", shares=(("leaf", f"leaf-{number % 2}"), ("pool", "training")))
        here.signal(f"gpu-{number}", 95, times=times)
    if not waits:
        here.turn()
        here.clock.advance(COMPANIONS_S)
    with counted(here) as found:
        here.turn()
    assert len(here.incidents()) == (1 if waits else 21)
    return found


def told(here: Deciding) -> list[str]:
    """What became of each signal and each machine, without the incidents' ids."""
    found = here.incidents()
    names = {one.id: f"<{one.key}>" for one in found}
    said = [f"{sentence} {incident}" for sentence, incident in here.verdicts()]
    said += [f"{one.key} {one.state} {one.plan} {one.tier} {one.sentence}" for one in found]
    for known, name in names.items():
        said = [sentence.replace(known, name) for sentence in said]
    return said


SIGNALS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([79, 48, 43, 31])), max_size=6)


def lived(folder: Path, history: list[list[tuple[int, int]]]) -> list[str]:
    """Batches of signals, a minute apart; between them the oldest incident is closed."""
    here = Deciding(folder, TWO_AT_ONCE)
    for batch in history:
        for node, code in batch:
            here.signal(f"gpu-{node}", code)
        here.turn()
        here.clock.advance(COMPANIONS_S)
        here.turn()
        for one in here.incidents()[:1]:
            here.close(one.id)
    said = told(here)
    here.store.close()
    return said


@settings(max_examples=20, deadline=None)
@given(st.lists(SIGNALS, max_size=3))
def test_what_is_read_once_for_many_is_as_good_as_what_is_read_for_each(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[int, int]]]
) -> None:
    together = lived(tmp_path_factory.mktemp("together"), history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreView, "meet", lambda _view, _machines: None)
        assert lived(tmp_path_factory.mktemp("each"), history) == together
