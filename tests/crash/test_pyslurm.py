"""Slurm through pyslurm alone: what it cannot do holds the job and pages, and is never done by halves."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.store import outbox
from slurm_bridge.model import SlurmJob
from slurm_bridge.pyslurm.backend import CANNOT
from tests.crash.test_silence import SICK, freeze
from tests.fakes.pyslurm_alone import PyslurmAlone
from tests.fakes.river import NODES, River

RELEASE = ("release-jobs:intent", "release-jobs:accepted")


def alone(folder: Path, *, expedites: bool = False) -> River:
    river = River(folder)
    names = tuple(f"w-{name}" for name in NODES)
    river.slurm = PyslurmAlone(river.clock, names, expedites=expedites)
    river.begin()
    return river


def held_by(river: River, what: str) -> list[str]:
    """What the steps of the one incident say that are held because pyslurm cannot do this."""
    (incident,) = river.open_incidents()
    assert incident.state == "held"
    return [row.name for row in river.steps(incident.id) if row.state == "held" and _says(row.sentence, what)]


def _says(sentence: str, what: str) -> bool:
    return sentence.startswith("pyslurm: ") and sentence.endswith(what)


def pages(river: River, what: str) -> int:
    with river.store.read() as connection:
        told = [one.message for one in outbox.due(connection, river.clock.now() + 1)]
    return sum(message.audience == "operators" and what in message.text for message in told)


def assert_closed(river: River) -> None:
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def test_an_array_task_is_held_and_paged_until_a_person_requeues_it(tmp_path: Path) -> None:
    river = alone(tmp_path)
    base = SlurmJob(job_id=0, state="PENDING", name="train", user="alice", batch=True, requeue=True)
    river.slurm.submit_array(base, (0, 1))
    river.clock.advance(2.0)
    jobs = river.slurm.jobs(deadline=5.0)
    (task,) = (job for job in jobs if SICK in job.nodes)
    (other,) = (job for job in jobs if job.job_id != task.job_id)
    river.xid("gpu-0")
    river.run(60.0)

    why = CANNOT["requeue an array task"]
    assert held_by(river, why) == ["release-jobs"]
    assert pages(river, why) == 1
    assert [write for write in river.slurm.writes if write.op in {"requeue", "set_down"}] == []
    assert river.job(task.job_id).run == task.run

    river.slurm.requeue_by_owner(task.job_id)
    river.run()
    assert (river.job(task.job_id).state, river.job(task.job_id).restart_count) == ("RUNNING", 1)
    assert river.job(other.job_id).run == other.run
    assert_closed(river)


@pytest.mark.parametrize("moment", RELEASE)
def test_a_job_that_cannot_be_read_while_it_saves_is_held_that_long_and_requeued_once(
    tmp_path: Path, moment: str
) -> None:
    river = alone(tmp_path)
    job = river.submit_job(save=5.0)
    crashed = river.crash_at(moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed == [moment]
    assert pages(river, "COMPLETING") >= 1
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert river.slurm.count("requeue", str(job)) == 1
    assert river.slurm.reservations(deadline=5.0) == ()
    assert_closed(river)


def test_a_silent_machine_is_not_set_down_where_an_expedited_job_would_start_at_once(tmp_path: Path) -> None:
    river = alone(tmp_path, expedites=True)
    job = river.submit_job()
    freeze(river)
    river.run(60.0)
    why = CANNOT["set a node DOWN under enable_expedited_requeue"]
    assert held_by(river, why) == ["release-jobs"]
    assert pages(river, why) == 1
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert [write for write in river.slurm.writes if write.op in {"requeue", "set_down"}] == []
