"""Ended jobs as Slurm lists them, and the signals that come of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.model.job_end import JobEnd
from remediator.signals.job_ends import job_ends
from slurm_bridge.model import ExitInfo, SlurmJob

NOW = 1_800_000_100.0
JOB = SlurmJob(
    job_id=12,
    state="FAILED",
    name="train",
    user="alice",
    submit_time=1_800_000_000,
    start_time=1_800_000_010.0,
    end_time=1_800_000_090.0,
    restart_count=1,
    batch=True,
    requeue=True,
    nodes=("w-0", "w-1"),
    exit=ExitInfo("ERROR", 1),
)


def only(job: SlurmJob) -> JobEnd:
    (signal,) = job_ends([job], NOW)
    return JobEnd.model_validate(signal.detail)


def test_a_failed_run_says_who_where_and_how() -> None:
    end = only(JOB)
    assert (end.run.key, end.run.user, end.run.nodes) == ("12.1800000000.1", "alice", ("w-0", "w-1"))
    assert (end.job, end.work, end.how, end.ended) == (
        "12",
        "alice/train",
        "exited with code 1",
        1_800_000_090,
    )
    assert end.run.release == "requeue"


def test_a_run_has_one_name_however_often_it_is_listed() -> None:
    first, again = (job_ends([JOB], now)[0].dedupe for now in (NOW, NOW + 300))
    assert first == again
    assert job_ends([replace(JOB, restart_count=2)], NOW)[0].dedupe != first


NO_NEWS = {
    "running": replace(JOB, state="RUNNING"),
    "requeued": replace(JOB, state="PENDING"),
    "still completing": replace(JOB, flags=frozenset({"COMPLETING"})),
    "done": replace(JOB, state="COMPLETED", exit=ExitInfo("SUCCESS", 0)),
    "cancelled": replace(JOB, state="CANCELLED"),
    "out of time": replace(JOB, state="TIMEOUT"),
    "preempted": replace(JOB, state="PREEMPTED"),
    "unreadable": replace(JOB, state="UNKNOWN"),
    "salloc": replace(JOB, batch=False),
}


@pytest.mark.parametrize("job", NO_NEWS.values(), ids=NO_NEWS)
def test_what_did_not_end_badly_is_no_signal(job: SlurmJob) -> None:
    assert job_ends([job], NOW) == []


def test_tasks_of_an_array_and_parts_of_a_het_job_are_one_job() -> None:
    assert only(replace(JOB, array_job_id=9, array_task_id=3)).job == "9"
    assert only(replace(JOB, array_job_id=9, array_task_id=3)).run.address == "9_3"
    assert only(replace(JOB, het_job_id=8, het_job_offset=1)).job == "8"


def test_what_the_owner_asked_for_holds_for_a_restart_too() -> None:
    end = only(replace(JOB, comment="remediator:leave"))
    assert (end.run.release, end.run.why) == ("tell-only", "its comment says remediator:leave")


def test_a_name_with_control_characters_is_written_out() -> None:
    end = only(replace(JOB, name="a\nb", user="al\x1bice"))
    assert end.work == "al\\x1bice/a\\nb"


def test_an_end_without_a_time_ended_now() -> None:
    assert only(replace(JOB, end_time=None)).ended == NOW
