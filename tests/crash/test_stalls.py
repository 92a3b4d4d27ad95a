"""A job that stands still is requeued once where its pool restarts jobs, whoever dies meanwhile; else its
owner is told. A node that lags behind its job is tested when its jobs have ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.audit import chain
from remediator.model.ranks import Finding
from remediator.observe.metrics import Metrics
from remediator.policy import rules
from remediator.policy.stalls import FRESH_S
from remediator.run.ranks import Ranks
from remediator.settings import Crashes as Limits
from remediator.settings import Pool
from remediator.signals.ranks import job_stalled, straggler
from remediator.store import outbox
from remediator.workflow.steps.survey import run_of
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.river import River

HANGS = Finding("stalled", flat_s=1800.0, spinning=True)


def pool(**changes: Any) -> dict[str, Pool]:
    base: dict[str, Any] = {
        "node_selector": {"pool": "training"},
        "stage": "full",
        "restart_failed_jobs": True,
    }
    return {"training": Pool(**(base | changes))}


@pytest.fixture
def river(tmp_path: Path) -> River:
    found = River(tmp_path, glob="/shared/{job}/step_*")
    found.pools = pool()
    found.begin()
    found.watch_jobs()
    found.clock.advance(3600.0)
    return found


def stalls(river: River, job: int, found: Finding = HANGS) -> None:
    """The look at running jobs has just told so."""
    run = run_of(river.job(job), frozenset())
    river._submit([job_stalled(run, found, 1, river.clock.now())])


def messages(river: River) -> list[str]:
    with river.store.read() as connection:
        return [one.message.text for one in outbox.due(connection, river.clock.now() + 1)]


def assert_restarted_once(river: River, job: int) -> None:
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert [write.op for write in river.slurm.writes if write.effect] == ["requeue", "start_now"]
    assert [(one.plan, one.rule, one.state) for one in river.all_incidents()] == [
        ("restart-job", "job-stalled", "closed")
    ]
    assert river.kube.writes == []
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def assert_left_alone(river: River, job: int) -> None:
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert river.slurm.writes == []


def test_a_job_that_hangs_gets_its_time_to_save_and_starts_again(river: River) -> None:
    job = river.submit_job(save=20.0)
    stalls(river, job)
    river.settle(60.0)
    assert_restarted_once(river, job)
    assert any(
        "computes nothing any more (job 1 stands still): it gets SIGTERM" in one for one in messages(river)
    )
    assert any("after it stood still; no node was touched" in one for one in messages(river))
    assert not any("longer than it should" in one for one in messages(river))


def test_from_the_readings_to_the_job_computing_again(river: River) -> None:
    job = river.submit_job(width=2, gpus=2)
    began, monitored = river.clock.now(), FakePrometheus()
    times = [began + 30 * step for step in range(160)]
    for number, worker in enumerate(river.job(job).nodes):
        where = {"job": "agents", "instance": f"10.0.0.{number}:9465"}
        about = where | {"node": river.worker_node(worker) or "", "boot_id": "b"}
        hangs = [(at, 0.4 if at < began + 2400 else 0.0) for at in times]
        monitored.put("remediator_agent_info", about, [(at, 1.0) for at in times])
        monitored.put("remediator_gpu_tensor_activity_ratio", where | {"gpu": "0"}, hangs)
        monitored.put("remediator_gpu_utilization_ratio", where | {"gpu": "0"}, [(at, 1.0) for at in times])
    ranks = Ranks(
        monitored, river.slurm, river.inventory(), river._submit, Metrics(), river.own, HANGS.flat_s
    )
    river.clock.advance(4000.0)
    ranks.look()
    assert river.turn() == []
    river.clock.advance(800.0)
    ranks.look()
    river.settle(30.0)
    ranks.look()
    assert_restarted_once(river, job)


def test_a_requeue_that_slurmctld_forgot_is_asked_for_once_more(river: River) -> None:
    kills = [1]

    def after(op: str, _target: str) -> None:
        if op == "requeue" and kills:
            river.clock.advance(1.0)
            river.slurm.kill_ctld(forget=kills.pop())

    river.slurm.after = after
    job = river.submit_job()
    stalls(river, job)
    river.settle(60.0)
    assert river.slurm.count("requeue", str(job)) == 2
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)


TOLD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no-requeue": ({"requeue": False}, {}, "submitted with --no-requeue"),
    "by default": ({}, {"restart_failed_jobs": False}, "restart_failed_jobs is off for its pool"),
}


@pytest.mark.parametrize("how", TOLD)
def test_who_is_not_restarted_is_told(river: River, how: str) -> None:
    fields, changes, why = TOLD[how]
    river.pools = pool(**changes)
    river.begin()
    job = river.submit_job(**fields)
    stalls(river, job)
    river.settle(4.0)
    assert_left_alone(river, job)
    assert sum(why in one and one.startswith("Your job") for one in messages(river)) == 1
    assert sum(why in one and one.startswith("job-stalled: ") for one in messages(river)) == 1


def test_a_site_may_have_stalls_recorded_only(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("version: 1\nrules: {job-hangs: {plan: record}}")
    river = River(tmp_path, policy=rules.load(overlay=site))
    river.pools = pool()
    river.begin()
    job = river.submit_job()
    stalls(river, job)
    river.settle(4.0)
    assert_left_alone(river, job)


@pytest.mark.parametrize("seen", [{"saved": True}, {"writing": True}])
def test_a_job_that_saves_meanwhile_lives(river: River, seen: dict[str, bool]) -> None:
    job = river.submit_job()
    now = river.clock.now()
    river.sees_saved(job, *([now - 600] if "saved" in seen else []), writing="writing" in seen)
    stalls(river, job)
    river.settle(4.0)
    assert_left_alone(river, job)
    assert messages(river) == []


def test_a_checkpoint_from_before_is_no_sign_of_life(river: River) -> None:
    job = river.submit_job()
    river.sees_saved(job, river.clock.now() - 3000)
    stalls(river, job)
    river.settle()
    assert_restarted_once(river, job)


def test_a_job_that_hangs_again_and_again_is_left_to_its_owner(river: River) -> None:
    river.limits = Limits(restarts=2)
    river.begin()
    job = river.submit_job()
    for _ in range(4):
        stalls(river, job)
        river.settle(15.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 2)
    assert any("restarted 2 times already" in one for one in messages(river))


@pytest.mark.parametrize("when", ["before it is judged", "before it is asked for"])
def test_a_stall_that_was_seen_long_ago_may_be_over(river: River, when: str) -> None:
    job = river.submit_job()
    stalls(river, job)
    if when == "before it is asked for":
        river.slurm.is_up = False
        river.settle(10.0)
    river.clock.advance(FRESH_S + 60)
    river.slurm.is_up = True
    river.settle(30.0)
    assert_left_alone(river, job)
    assert all(one.state == "closed" for one in river.all_incidents())
    stalls(river, job, Finding("stalled", flat_s=5400.0, spinning=True))
    river.settle()
    assert river.job(job).restart_count == 1


def test_a_job_that_an_incident_moves_already_is_not_requeued_twice(river: River) -> None:
    job = river.submit_job(save=10.0)
    river.xid("gpu-0")
    river.turn()
    stalls(river, job)
    river.settle(60.0)
    assert river.slurm.count("requeue", str(job)) == 1
    assert [one.plan for one in river.all_incidents()] == ["replace"]


def test_a_dry_run_restarts_and_tells_nobody(river: River) -> None:
    river.dry_run = True
    river.begin()
    job = river.submit_job()
    stalls(river, job)
    river.settle(4.0)
    assert_left_alone(river, job)
    assert [one.sentence.partition(":")[0] for one in river.all_incidents()] == ["dry run"]


def lags(river: River, job: int, node: str = "gpu-0") -> None:
    found = Finding("straggler", node=node, gpu="gpu 1", share=0.3, rail="rail 1")
    run = run_of(river.job(job), frozenset())
    river._submit([straggler(run, node, f"boot-{node}", found, river.clock.now())])


def test_a_node_that_lags_is_tested_when_its_job_has_ended_and_given_back(river: River) -> None:
    job = river.submit_job(width=2)
    lags(river, job)
    river.settle(80.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert [(one.plan, one.rule) for one in river.open_incidents()] == [("validate", "straggler")]
    river.slurm.cancel(job)
    river.settle(90.0)
    assert [(one.plan, one.state) for one in river.all_incidents()] == [
        ("give-back", "closed"),
        ("validate", "closed"),
    ]
    assert river.slurm.count("requeue", str(job)) == 0


def test_a_node_that_lags_and_fails_its_test_is_replaced(river: River) -> None:
    job = river.submit_job(width=2)
    lags(river, job)
    river.settle(80.0)
    river.kube.outside("gpu-0", "gpu lost", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})
    river.slurm.cancel(job)
    river.settle(150.0)
    assert [(one.plan, one.state) for one in river.all_incidents()] == [("replace", "closed")]


def test_by_default_a_node_that_lags_is_only_told_of(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.pools = {"training": Pool(node_selector={"pool": "training"})}
    river.begin()
    river.clock.advance(3600.0)
    job = river.submit_job(width=2)
    lags(river, job)
    river.settle(80.0)
    assert river.slurm.writes == []
    assert [one.state for one in river.open_incidents()] == ["held"]
