"""What a turn remembers of the store changes nothing: it decides as one that asks each time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from remediator.incidents.companions import COMPANIONS_S
from remediator.model.incident import COMMON_CAUSE, Incident
from remediator.model.machine import Machine
from remediator.run import openings, triage
from remediator.run.storeview import StoreView
from remediator.settings import BreakerSettings, Budgets, GuardSettings, Limit
from remediator.settings.tree import KnownBad
from remediator.store import incidents, schema
from remediator.store.commands import Command, ask
from remediator.store.within import Within
from remediator.workflow import common_cause
from remediator.workflow.journal import Journal
from tests.unit.run.deciding import Deciding

NODES = 6
TIGHT = Budgets(
    drain_t0=KnownBad(percent=0, at_least=3),
    drain=Limit(at_least=2, per_hour=None),
    breaker=BreakerSettings(at_least=2, percent=0),
    guard=GuardSettings(behind_one=1, in_pool=3, percent=100),
)
LOOSE = Budgets(
    drain=Limit(at_least=9, per_hour=None),
    breaker=BreakerSettings(at_least=9),
    guard=GuardSettings(behind_one=9, in_pool=9, percent=100),
)
STAGES: Sequence[Any] = ("full", {"T0": "full", "T1": "observe"}, "observe")
told = st.tuples(st.integers(0, NODES - 1), st.sampled_from([79, 95, 48, 64, 43]), st.integers(1, 3))
breaks = st.sampled_from(["", "decision", "incident-opened", "breaker-open"])


@dataclass(frozen=True)
class Minute:
    """What comes in together, in this order: nodes, codes and how often, some seconds `apart`. The first
    record of the kind `breaks` breaks us. A machine's stage is set, the oldest incident closed, the oldest
    group released.
    """

    told: list[tuple[int, int, int]]
    apart: float = 0.0
    breaks: str = ""
    staged: tuple[int, int] = (0, 0)
    closed: bool = False
    released: bool = False


minutes = st.builds(
    Minute,
    st.lists(told, max_size=6),
    st.sampled_from([0.0, 0.5]),
    breaks,
    st.tuples(st.integers(0, NODES - 1), st.integers(0, len(STAGES) - 1)),
    st.booleans(),
    st.booleans(),
)
OVERTAKEN = [Minute([(0, 95, 2)]), Minute([(0, 79, 2)])]
TOLD_AGAIN = [Minute([(0, 95, 1), (1, 95, 1)] * 2, apart=0.5)]
COVERED = [Minute([(1, 95, 1), (3, 95, 1)]), Minute([(0, 95, 1), (5, 95, 1), (0, 95, 1)])]
"""As machine 0 is told of again, its pool has one more that is sick, which is of another group already."""


class World(Deciding):
    """Machines behind two leaves, records that break when they are told to, and ids that are counted."""

    def __init__(self, folder: Path, budgets: Budgets, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, budgets)
        for number in range(NODES):
            self.add(f"gpu-{number}", shares=(("leaf", f"leaf-{number % 2}"), ("pool", "training")))
        self._breaks = ""
        numbers = itertools.count()
        for module in (openings, common_cause):
            patch.setattr(module, "incident_id", lambda _now: f"i{next(numbers):04}")
        sound = Journal.record

        def record(journal: Journal, connection: sa.Connection, action: str, *args: Any, **more: Any) -> None:
            sound(journal, connection, action, *args, **more)
            if action == self._breaks:
                self._breaks = ""
                raise ZeroDivisionError(action)

        patch.setattr(Journal, "record", record)

    def live(self, minute: Minute) -> None:
        """What comes in is judged, at once and once it has waited for its companions."""
        node, stage = minute.staged
        self.add(f"gpu-{node}", stage=STAGES[stage])
        self._breaks = minute.breaks
        for number, code, times in minute.told:
            self.signal(f"gpu-{number}", code, times=times)
            self.clock.advance(minute.apart)
        for after in (0.0, COMPANIONS_S):
            self.clock.advance(after)
            with suppress(ZeroDivisionError):  # while those that were held are let in, it breaks the turn
                self.turn()
        self._breaks = ""
        known = [one for one in self.incidents() if one.closed_at is None]
        for one in [one for one in known if one.plan != COMMON_CAUSE][: minute.closed]:
            self.close(one.id)
        for one in [one for one in known if one.plan == COMMON_CAUSE][: minute.released]:
            at = self.clock.now()
            with self.store.write() as connection:
                ask(connection, Command(f"c{at}", "release", one.id, "ann", at))

    def books(self) -> dict[str, list[str]]:
        """Everything that is on the books but the lease, which ends by the true clock."""
        with self.store.read() as connection:
            return {
                table.name: sorted(str(row) for row in connection.execute(sa.select(table)))
                for table in schema.metadata.sorted_tables
                if table is not schema.leadership
            }


def lived(folder: Path, budgets: Budgets, history: list[Minute], *, forgetful: bool) -> dict[str, list[str]]:
    """What is on the books after all that; one that is forgetful reads everything each time."""
    asked = StoreView.open_for

    def checked(view: StoreView, machine: Machine) -> Incident | None:
        found = asked(view, machine)
        assert found == incidents.open_for(view._connection, machine.key)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreView, "open_for", checked)
        patch.setattr(triage.log, "exception", lambda *_, **__: None)  # a traceback is slow to draw
        if forgetful:
            patch.setattr(Within, "__call__", lambda within, _connection: within._make())
            patch.setattr(StoreView, "_known", lambda _view: {})
        here = World(folder, budgets, patch)
        here.turn()  # it watches from now on
        for minute in history:
            here.live(minute)
        here.turn()
        books = here.books()
    here.store.close()
    return books


@example(history=OVERTAKEN, budgets=LOOSE)
@example(history=TOLD_AGAIN, budgets=TIGHT)
@example(history=COVERED, budgets=TIGHT)
@example(history=[Minute([(0, 79, 2)], breaks="decision")], budgets=LOOSE)
@example(history=[Minute([(0, 79, 1), (1, 79, 2), (3, 79, 2)], breaks="incident-opened")], budgets=TIGHT)
@example(history=[Minute([(number, 79, 1) for number in range(5)], breaks="breaker-open")], budgets=TIGHT)
@settings(max_examples=12, deadline=None)
@given(history=st.lists(minutes, min_size=1, max_size=3), budgets=st.sampled_from([TIGHT, LOOSE]))
def test_what_a_turn_remembers_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, history: list[Minute], budgets: Budgets
) -> None:
    asking = lived(tmp_path_factory.mktemp("asking"), budgets, history, forgetful=True)
    remembering = lived(tmp_path_factory.mktemp("remembering"), budgets, history, forgetful=False)
    assert remembering == asking
