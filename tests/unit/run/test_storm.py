"""Hundreds of signals at once: no budget is overdrawn, nobody who may go on is forgotten, turns are short."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.run.core import ALL_S, RECONSIDER_S
from remediator.run.share import FEW, FEW_OPENINGS, OPENINGS
from remediator.settings import Budgets
from remediator.settings.tree import KnownBad
from remediator.workflow.engine import Engine
from tests.unit.run.deciding import TWO_AT_ONCE, Deciding

READS_DEBITS = "FROM debit JOIN incident"


@pytest.fixture
def tight(tmp_path: Path) -> Deciding:
    here = Deciding(tmp_path, TWO_AT_ONCE)
    for number in range(20):
        here.add(f"gpu-{number}")
    return here


def states(here: Deciding) -> list[str]:
    return [incident.state for incident in here.incidents()]


def test_one_turn_that_opens_many_incidents_lets_as_many_act_as_the_budget_has(tmp_path: Path) -> None:
    here = Deciding(tmp_path, Budgets(drain_t0=KnownBad(percent=25)))
    for number in range(40):
        here.add(f"gpu-{number}")
        here.signal(f"gpu-{number}")
    read: list[str] = []
    sa.event.listen(here.store.engine, "before_cursor_execute", lambda *sent: read.append(sent[2]))
    here.turn()
    assert (states(here).count("open"), states(here).count("held")) == (10, 30)
    assert sum(READS_DEBITS in sent for sent in read) <= 3, "what a transaction knows it does not ask again"


def test_a_turn_after_a_rolled_back_one_knows_nothing_of_what_that_drew(tight: Deciding) -> None:
    tight.signal("gpu-0")
    tight.signal("gpu-1")

    def lost(_connection: sa.Connection) -> None:
        raise sa.exc.OperationalError("COMMIT", None, Exception("disk I/O error"))

    sa.event.listen(tight.store.engine, "commit", lost)
    with pytest.raises(Exception, match="disk I/O error"):
        tight.turn()
    sa.event.remove(tight.store.engine, "commit", lost)
    assert states(tight) == []
    tight.turn()
    assert states(tight) == ["open", "open"]


def test_what_breaks_while_it_is_opened_draws_on_no_budget_of_the_others(
    tight: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, broken = Engine.start, iter(["gpu-1"])

    def start(engine: Engine, connection: sa.Connection, incident: Incident, now: float) -> None:
        if incident.node == "gpu-1" and next(broken, None):
            raise KeyError(incident.node)
        sound(engine, connection, incident, now)

    monkeypatch.setattr(Engine, "start", start)
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    assert states(tight) == ["open", "open"]


def test_while_signals_pour_in_who_may_go_on_is_found_within_a_second(tight: Deciding) -> None:
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    tight.close(tight.incidents()[0].id)
    due = tight.clock.now() + ALL_S
    for _ in range(3):
        tight.clock.advance(ALL_S / 4)
        tight.signal("gpu-1", 45)
        assert tight.turn().wake_at == due
    tight.clock.advance(ALL_S / 4)
    tight.signal("gpu-1", 45)
    tight.turn()
    assert states(tight) == ["closed", "open", "open"]


def test_in_a_storm_the_machine_that_it_is_about_goes_on_at_once(tight: Deciding) -> None:
    tight.add("gpu-9", stage="observe")
    tight.signal("gpu-9")
    tight.turn()
    tight.add("gpu-9", stage="full")
    tight.signal("gpu-9")
    tight.turn()
    assert states(tight) == ["open"]


def test_without_a_storm_nobody_waits_for_the_second(tight: Deciding) -> None:
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    tight.close(tight.incidents()[0].id)
    assert tight.turn().wake_at == tight.clock.now() + RECONSIDER_S
    assert states(tight) == ["closed", "open", "open"]


def test_a_turn_opens_only_so_many_incidents_and_the_next_comes_at_once(tmp_path: Path) -> None:
    here = Deciding(tmp_path)
    for number in range(OPENINGS + 30):
        here.add(f"gpu-{number}")
        here.signal(f"gpu-{number}")
    first = here.turn()
    assert (len(first.sentences), first.wake_at) == (OPENINGS, here.clock.now())
    second = here.turn()
    assert len(second.sentences) == 30
    assert second.wake_at == here.clock.now() + ALL_S


@pytest.fixture
def sender() -> Iterator[Callable[[Deciding], Callable[[], None]]]:
    """Lets a thread that wants to store something wait throughout the next turn; then one can wait for it."""
    threads: list[threading.Thread] = []

    def joined() -> None:
        for thread in threads:
            thread.join(20.0)
            assert not thread.is_alive()

    def wait(here: Deciding) -> Callable[[], None]:
        def send() -> None:
            with here.store.write():
                pass

        def come(_connection: sa.Connection) -> None:
            threads.append(threading.Thread(target=send))
            threads[-1].start()
            for _ in range(2000):
                if here.store.is_wanted:
                    return
                time.sleep(0.005)

        sa.event.listen(here.store.engine, "begin", come, once=True)
        return joined

    yield wait
    joined()


@pytest.mark.parametrize(("code", "least"), [(79, FEW_OPENINGS), (43, FEW)])
def test_while_a_sender_waits_for_the_store_a_turn_is_short_and_the_rest_is_next(
    tmp_path: Path, sender: Callable[[Deciding], Callable[[], None]], code: int, least: int
) -> None:
    here = Deciding(tmp_path)
    for number in range(3 * FEW):
        here.add(f"gpu-{number}")
        here.signal(f"gpu-{number}", code)
    stored = sender(here)
    short = here.turn()
    assert (len(short.sentences), short.more, short.wake_at) == (least, True, here.clock.now())
    stored()
    rest = here.turn()
    assert (len(rest.sentences), rest.more) == (3 * FEW - least, False)
