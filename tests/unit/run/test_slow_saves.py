"""A job that could not save in time is told of before it has to: once, until it is well again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remediator.model.checkpoint import CheckpointLook, Checkpoints, JobKey
from remediator.model.signal import Signal
from remediator.run.slow_saves import RECENT_S, SlowSaves
from remediator.store import checkpoints, outbox, signals
from tests.fakes.slurm import FakeSlurm
from tests.unit.run.deciding import Deciding

GLOB = "/shared/{user}/{job}/step_*"


class Saving(Deciding):
    """Jobs in the pool `training`, and an agent that looks at what they save."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slurm = FakeSlurm(self.clock, kill_wait=120)
        self.restart()

    def restart(self) -> None:
        """A controller that has looked at nothing yet."""
        self.look = SlowSaves(self.slurm, {"training": GLOB}, self.store, self._take, self.clock)

    def _take(self, found: Sequence[Signal]) -> None:
        with self.store.write() as connection:
            signals.insert_new(connection, found)

    def saves(self, job: int, seconds: float, *, ago: float = 30.0, **key: Any) -> None:
        """The job's last save, as an agent sees it now."""
        found = Checkpoints(
            key=JobKey(job=str(job), **({"user": "alice"} | key)),
            newest="step_1",
            ages=(ago,),
            save_s=seconds,
        )
        with self.store.write() as connection:
            look = CheckpointLook(glob=GLOB, looked_s=0.0, found=(found,))
            checkpoints.put(connection, "login-0", [look], self.clock.now())

    def messages(self) -> list[tuple[str, str]]:
        """What people have been told: to whom, and the beginning of it."""
        self.look.look()
        self.turn()
        with self.store.read() as connection:
            found = outbox.due(connection, self.clock.now())
        return [(one.message.audience, one.message.text) for one in found]


@pytest.fixture
def world(tmp_path: Path) -> Saving:
    return Saving(tmp_path)


def test_a_slow_save_is_told_once_until_the_job_is_well_again(world: Saving) -> None:
    world.saves(12, 190.0)
    operators, owner = world.messages()
    assert operators[1].startswith(
        "saves in pool training are slow: job=12 user=alice: a save takes 190 s or more, and it gets 120 s;"
    )
    assert owner == (
        "user:alice",
        "Your job may lose work if its node fails: a save takes 190 s or more, and it gets 120 s when it is "
        "told to leave. Save asynchronously, or more often.",
    )
    world.clock.advance(60)
    world.saves(12, 250.0)
    world.restart()
    assert len(world.messages()) == 2
    world.saves(12, 20.0)
    assert len(world.messages()) == 2
    assert (world.verdicts()[-1][0] or "").startswith(
        "saves in pool training: job=12 user=alice is well again"
    )
    world.clock.advance(3601)
    world.restart()
    world.saves(12, 190.0)
    assert len(world.messages()) == 4


def test_of_many_slow_jobs_operators_hear_once_an_hour_and_each_owner_once(world: Saving) -> None:
    for job, user in ((1, "alice"), (2, "bob"), (3, "")):
        world.saves(job, 190.0, user=user)
    assert sorted(who for who, _ in world.messages()) == ["operators", "user:alice", "user:bob"]
    assert len(world.verdicts()) == 3


@pytest.mark.parametrize(("seconds", "ago"), [(119.0, 30.0), (190.0, RECENT_S + 60)])
def test_a_quick_save_or_one_of_long_ago_is_no_news(world: Saving, seconds: float, ago: float) -> None:
    world.saves(12, seconds, ago=ago)
    assert world.messages() == []


def test_what_no_agent_sees_any_more_is_no_news(world: Saving) -> None:
    world.saves(12, 190.0)
    world.clock.advance(301)
    assert world.messages() == []
