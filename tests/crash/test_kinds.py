"""Kinds of jobs that go through the whole river another way than a plain batch job."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.store import outbox
from tests.fakes.river import River

STEPS = ("hold-place", "release-jobs", "free-place")
MOMENTS = [f"{step}:{moment}" for step in STEPS for moment in ("intent", "accepted")]


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def messages(river: River) -> list[str]:
    with river.store.read() as connection:
        return [one.message.text for one in outbox.due(connection, river.clock.now() + 1)]


def assert_closed(river: River) -> None:
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    assert river.slurm.reservations(deadline=5.0) == ()
    assert river.admitted() == ["spare-0"]
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def crash_once(river: River, moment: str) -> list[str]:
    return river.crash_at(moment)


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_expedited_job_is_requeued_once_and_starts_by_itself(river: River, moment: str) -> None:
    job = river.submit_job(traits=frozenset({"EXPEDITED_REQUEUE"}))
    crashed = crash_once(river, moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed == [moment]
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert "w-gpu-0" not in river.job(job).nodes or river.worker_node("w-gpu-0") == "spare-0"
    assert river.slurm.count("requeue", str(job)) == 1
    assert_closed(river)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_incident_does_not_wait_for_a_job_that_somebody_holds(river: River, moment: str) -> None:
    job = river.submit_job()
    river.slurm.hold(job)
    crashed = crash_once(river, moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed == [moment]
    seen = river.job(job)
    assert (seen.state, seen.held, seen.restart_count, seen.reservation) == ("PENDING", True, 1, "")
    assert any("held (JobHeldAdmin) until `scontrol release" in text for text in messages(river))
    assert_closed(river)


def test_a_job_that_gives_the_node_back_runs_on_and_the_incident_ends(river: River) -> None:
    """It was to be left alone; with `--no-kill` Slurm takes the node out of it in the same way."""
    job = river.submit_job(requeue=False)
    river.xid("gpu-0")
    river.run(30.0)
    assert [incident.state for incident in river.all_incidents()] == ["held"]
    river.slurm.shrink(job, "w-gpu-0")
    river.run()
    seen = river.job(job)
    assert (seen.state, seen.nodes, seen.restart_count) == ("RUNNING", ("w-gpu-1",), 0)
    assert river.slurm.count("requeue", str(job)) == 0
    assert_closed(river)


@pytest.mark.parametrize("moment", ["hold-place:intent", "release-jobs:intent"])
def test_a_job_that_requeued_itself_first_is_not_requeued_again(river: River, moment: str) -> None:
    job = river.submit_job()
    done: list[str] = []

    def probe(now: str) -> None:
        if now == moment and not done:
            done.append(now)
            river.slurm.requeue_by_owner(job)

    river.probe = probe
    river.xid("gpu-0")
    river.run()
    assert done
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert [write for write in river.slurm.writes if write.op == "requeue"] == []
    assert_closed(river)


def test_a_suspended_job_is_left_alone_until_somebody_ends_it(river: River) -> None:
    job = river.submit_job()
    river.slurm.suspend(job)
    river.xid("gpu-0")
    river.run(30.0)
    assert [write for write in river.slurm.writes if write.op in {"requeue", "set_down"}] == []
    assert any("suspended" in text and "left alone" in text for text in messages(river))
    river.slurm.cancel(job)
    river.run()
    assert_closed(river)
