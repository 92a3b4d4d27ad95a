"""What is only recorded and people shall hear of all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.store import outbox
from tests.unit.run.deciding import Deciding


@pytest.fixture
def world(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


def told(world: Deciding) -> list[str]:
    with world.store.read() as connection:
        return [waiting.message.text for waiting in outbox.due(connection, world.clock.now())]


def test_people_hear_of_an_unknown_code_once_an_hour_and_not_for_each_event_or_node(world: Deciding) -> None:
    for node in ("gpu-0", "gpu-1", "gpu-1"):
        world.signal(node, 4242, times=3)
        world.turn()
    assert len(told(world)) == 1
    assert told(world)[0].startswith(
        "xid 4242: first seen within the hour on gpu-0; xid 4242 is in no catalogue"
    )
    world.signal("gpu-0", 4243)
    world.turn()
    assert len(told(world)) == 2
    world.clock.advance(3601)
    world.signal("gpu-2", 4242)
    world.turn()
    assert len(told(world)) == 3


def test_people_hear_of_it_on_a_machine_under_treatment_too(world: Deciding) -> None:
    world.signal("gpu-0", 79)
    world.turn()
    before = len(told(world))
    for code, kind in ((4242, "xid"), (4242, "xid"), (11004, "sxid"), (92, "xid")):
        world.signal("gpu-0", code, kind=kind)
        world.turn()
    heard = told(world)[before:]
    assert [text.partition(":")[0] for text in heard] == ["xid 4242", "sxid 11004"]


def test_one_code_is_not_taken_for_another_that_begins_like_it(world: Deciding) -> None:
    for code in (42420, 4242):
        world.signal("gpu-0", code)
        world.turn()
    assert len(told(world)) == 2


def test_a_rule_may_want_people_to_hear_and_a_known_code_alone_does_not(world: Deciding) -> None:
    world.signal("gpu-0", 11004, kind="sxid")
    world.signal("gpu-0", 163)
    world.turn()
    assert ["sxid 11004" in text for text in told(world)] == [True]
