"""The poll notices what changed on the nodes under treatment and forgets nothing when Slurm is silent."""

from __future__ import annotations

import threading

import pytest

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.run.slurm_poll import KNOWN_S, SlurmPoll
from tests.fakes.slurm import FakeSlurm

BOTH = frozenset({"w-0", "w-1"})


class World:
    """A poll in virtual time, and what it asked and told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.slurm = FakeSlurm(self.clock, nodes=("w-0", "w-1"))
        self.asked: list[tuple[str, str]] = []
        self.slurm.before = lambda op, target: self.asked.append((op, target))
        self.told = 0
        self.poll = SlurmPoll(self.slurm, self.clock, self._changed, 0.01, 30.0)

    def _changed(self) -> None:
        self.told += 1

    def seen(self) -> dict[str, tuple[bool, str]]:
        return {name: (node.drain, node.reason) for name, node in self.poll.view().nodes.items()}


@pytest.fixture
def world() -> World:
    return World()


def test_without_nodes_it_only_reads_the_settings(world: World) -> None:
    for _ in range(2):
        world.poll.poll()
    assert world.asked == [("config", "")] * 2
    assert world.seen() == {}


def test_it_reads_exactly_the_watched_nodes_and_the_settings_as_rarely_as_ever(world: World) -> None:
    world.poll.watch(frozenset({"w-1"}))
    for wait in (0.0, 1.0, 28.9, 0.1):
        world.clock.advance(wait)
        world.poll.poll()
    node, settings = ("node", "w-1"), ("config", "")
    assert world.asked == [settings, node, node, node, settings, node]
    assert world.seen() == {"w-1": (False, "")}


def test_settings_are_known_for_a_minute_after_slurm_has_gone_silent(world: World) -> None:
    assert world.poll.config() is None
    world.poll.poll()
    before = world.poll.config()
    assert before == world.slurm.config(deadline=5.0)
    world.slurm.is_up = False
    for wait, known in ((KNOWN_S, before), (0.1, None)):
        world.clock.advance(wait)
        world.poll.poll()
        assert world.poll.config() == known


def test_a_change_is_told_and_the_same_again_is_not(world: World) -> None:
    world.poll.watch(BOTH)
    world.poll.poll()
    world.poll.poll()
    assert world.told == 1
    world.slurm.drain("w-0", "remediator: i1 x", deadline=5.0)
    world.poll.poll()
    assert world.told == 2
    assert world.seen()["w-0"] == (True, "remediator: i1 x")
    world.slurm.resume("w-0", deadline=5.0)
    world.poll.poll()
    assert world.told == 3


def test_a_node_that_is_gone_is_not_drained(world: World) -> None:
    world.poll.watch(frozenset({"w-9"}))
    world.poll.poll()
    assert world.seen() == {"w-9": (False, "")}


def test_what_was_known_stays_while_slurm_is_silent(world: World) -> None:
    world.slurm.drain("w-0", "remediator: i1 x", deadline=5.0)
    world.poll.watch(BOTH)
    world.poll.poll()
    before = world.poll.view()
    world.slurm.is_up = False
    world.clock.advance(7.0)
    world.poll.poll()
    assert world.poll.view() == before
    assert world.told == 1
    assert world.poll.age() == 7.0


def test_half_an_answer_is_none(world: World) -> None:
    world.poll.watch(BOTH)

    def second_fails(op: str, target: str) -> None:
        if target == "w-1":
            raise Retry("the connection broke")

    world.slurm.before = second_fails
    world.poll.poll()
    assert world.seen() == {}


def test_settings_that_cannot_be_read_hide_no_node(world: World) -> None:
    world.poll.watch(BOTH)

    def no_settings(op: str, _target: str) -> None:
        if op == "config":
            raise Retry("slurmctld is busy")

    world.slurm.before = no_settings
    world.slurm.drain("w-0", "remediator: i1 x", deadline=5.0)
    world.poll.poll()
    assert world.seen()["w-0"] == (True, "remediator: i1 x")
    assert (world.poll.age(), world.poll.config()) == (0.0, None)


def test_before_the_first_answer_it_is_infinitely_old(world: World) -> None:
    assert world.poll.age() == float("inf")
    world.poll.poll()
    assert world.poll.age() == 0.0


def test_a_look_knows_when_it_was_made(world: World) -> None:
    world.poll.watch(frozenset({"w-0"}))
    world.clock.advance(3.0)
    world.poll.poll()
    assert world.poll.view().nodes["w-0"].read_at == world.clock.now()


class Pauses(threading.Event):
    """Never waits; writes down how long it was asked to, and ends the loop after three."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        if len(self.asked) == 2:
            self.world.poll.watch(BOTH)
        if len(self.asked) == 4:
            self.world.poll.stop()
        return self.is_set()


def test_it_looks_often_only_while_nodes_are_under_treatment(world: World) -> None:
    pauses = Pauses(world)
    world.poll._wake = pauses
    world.poll.run()
    assert pauses.asked == [30.0, 30.0, 0.01, 0.01]


def test_new_nodes_and_a_stop_do_not_wait_for_the_idle_pause(world: World) -> None:
    looked, pinged = threading.Event(), threading.Event()

    def before(op: str, _target: str) -> None:
        (looked if op == "node" else pinged).set()

    world.slurm.before = before
    thread = threading.Thread(target=world.poll.run, daemon=True)
    thread.start()
    assert pinged.wait(20.0)
    world.poll.watch(BOTH)
    assert looked.wait(20.0)  # the idle pause is 30 s
    world.poll.watch(frozenset())
    pinged.clear()
    assert pinged.wait(20.0)
    world.poll.stop()
    thread.join(20.0)
    assert not thread.is_alive()
