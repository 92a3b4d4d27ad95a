"""A job is restarted once for a crash as for a stall, whoever dies and whatever answer is lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.errors import Ambiguous
from remediator.model.ranks import Finding
from remediator.settings import Pool
from remediator.signals.ranks import job_stalled
from remediator.workflow.steps.survey import run_of
from tests.fakes.river import River

MOMENTS = [f"{step}:{moment}" for step in ("restart-job", "start-jobs") for moment in ("intent", "accepted")]


def crashes(river: River, job: int) -> None:
    river.clock.advance(3.0)
    river.slurm.fail(job, 1)


def stalls(river: River, job: int) -> None:
    found = Finding("stalled", flat_s=1800.0, spinning=True)
    river._submit([job_stalled(run_of(river.job(job), frozenset()), found, 1, river.clock.now())])


CAUSES: dict[str, Callable[[River, int], None]] = {"job-crash": crashes, "job-stalled": stalls}


@pytest.fixture
def river(tmp_path: Path) -> River:
    found = River(tmp_path, glob="/shared/{job}/step_*")
    found.pools = {
        "training": Pool(node_selector={"pool": "training"}, stage="full", restart_failed_jobs=True)
    }
    found.begin()
    found.watch_jobs()
    found.clock.advance(3600.0)
    return found


def assert_restarted_once(river: River, job: int, cause: str) -> None:
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert [write.op for write in river.slurm.writes if write.effect] == ["requeue", "start_now"]
    closed = [("restart-job", cause, "closed")]
    assert [(one.plan, one.rule, one.state) for one in river.all_incidents()] == closed
    assert river.kube.writes == []
    with river.store.read() as connection:
        assert chain.verify(connection).ok


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_of_the_controller_repeats_nothing(river: River, moment: str, cause: str) -> None:
    crashed = river.crash_at(moment)
    job = river.submit_job()
    CAUSES[cause](river, job)
    river.settle(30.0)
    assert crashed == [moment]
    assert_restarted_once(river, job, cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_lost_answer_is_looked_up_not_repeated(river: River, cause: str) -> None:
    lost: list[str] = []

    def after(op: str, target: str) -> None:
        if op == "requeue" and not lost:
            lost.append(target)
            raise Ambiguous("the connection broke")

    river.slurm.after = after
    job = river.submit_job()
    CAUSES[cause](river, job)
    river.settle(30.0)
    assert lost
    assert_restarted_once(river, job, cause)
