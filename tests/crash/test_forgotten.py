"""slurmctld killed within seconds of a requeue it took: the run comes back FAILED, and moves all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.river import Crash, River


def run_until(river: River, *kills: float, save: float = 3.0) -> int:
    """A moved job whose slurmctld dies so many seconds after its first, second, ... requeue."""
    job = river.submit_job(save=save)
    left, due = list(kills), [float("inf")]

    def after(op: str, _target: str) -> None:
        if op == "requeue" and left:
            due[0] = river.clock.now() + left.pop(0)

    river.slurm.after = after
    river.xid("gpu-0")
    until = river.clock.now() + 300
    while river.clock.now() < until:
        live(river)
        if river.clock.now() >= due[0]:
            due[0] = float("inf")
            river.slurm.kill_ctld(forget=forgets(river), after_term=True)
        if not river.open_incidents() and not river.answers:
            break
    return job


def live(river: River) -> None:
    """One turn, or a crash of the controller and its next life."""
    try:
        river.turn()
    except Crash:
        river.clock.advance(2.0)
        river.begin()


def forgets(river: River) -> int:
    """How many of the last writes slurmctld has to forget so that the requeue is among them."""
    effective = [write.op for write in river.slurm.writes if write.effect]
    return len(effective) - len(effective[: len(effective) - effective[::-1].index("requeue")]) + 1


@pytest.fixture
def river(tmp_path: Path) -> River:
    """At stage move-jobs: the fake's slurmctld would forget the worker's move to a spare as well."""
    return River(tmp_path, stage="move-jobs")


@pytest.mark.parametrize(
    ("save", "seconds"), [(0.0, 0.0), (0.0, 0.5), (0.0, 1.0), (3.0, 0.5), (3.0, 2.0), (3.0, 3.1), (3.0, 4.0)]
)
def test_a_requeue_that_slurmctld_forgot_is_asked_for_once_more(
    river: River, save: float, seconds: float
) -> None:
    job = run_until(river, seconds, save=save)
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert "w-gpu-0" not in seen.nodes
    assert river.slurm.count("requeue", str(job)) == 2
    assert [incident.state for incident in river.all_incidents()] == ["closed"]


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_its_place_is_kept_meanwhile(tmp_path: Path, seconds: float) -> None:
    river = River(tmp_path)
    job = run_until(river, seconds)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert "w-gpu-1" in river.job(job).nodes
    assert river.slurm.reservations(deadline=5.0) == ()
    assert [incident.state for incident in river.all_incidents()] == ["closed"]


@pytest.mark.parametrize("moment", ["release-jobs:intent", "release-jobs:accepted", "start-jobs:accepted"])
def test_so_it_is_when_the_controller_dies_too(river: River, moment: str) -> None:
    crashes = [moment]

    def probe(now: str) -> None:
        if crashes and now == crashes[0]:
            raise Crash(crashes.pop())

    river.probe = probe
    job = run_until(river, 2.5)
    assert not crashes
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert river.slurm.count("requeue", str(job)) == 2


def test_a_second_loss_is_not_asked_for_again(river: River) -> None:
    job = run_until(river, 3.1, 0.3)
    assert river.slurm.count("requeue", str(job)) == 2
    assert river.job(job).state == "FAILED"
    assert [incident.state for incident in river.all_incidents()] == ["closed"]


def test_a_job_that_fails_while_slurmctld_lives_is_not_requeued(river: River) -> None:
    """Without a new slurmctld a FAILED run under the same restart count ended by itself."""
    job = river.submit_job()

    def before(op: str, _target: str) -> None:
        if op == "requeue":
            raise AssertionError("a job that ended by itself was requeued")

    def fails(moment: str) -> None:
        if moment == "release-jobs:intent":
            river.slurm.fail(job)

    river.slurm.before = before
    river.probe = fails
    river.xid("gpu-0")
    river.run()
    assert river.job(job).state == "FAILED"
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
