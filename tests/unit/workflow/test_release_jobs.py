"""The requeue's last look: a second requeue would kill the new run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.guard import open_guard
from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, StepRow, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Conduct, Context, Ports
from remediator.workflow.steps.release_jobs import ReleaseJobs
from slurm_bridge.model import SlurmJob
from tests.fakes.kube import FakeCluster
from tests.fakes.slurm import FakeSlurm

INCIDENT = Incident(
    id="i1", key="k", node="gpu-0", node_uid="u", boot_id="b", slurm_nodes=("w-0",), tier="T0", rule="r",
    cause="XID 79", plan="replace", fault_at=0.0, opened_at=0.0,
)  # fmt: skip
RUN = JobRun(job_id=7, submit_time=100, restart_count=0, address="7")
JOB = SlurmJob(
    job_id=7,
    state="RUNNING",
    submit_time=100,
    restart_count=0,
    batch=True,
    requeue=True,
    nodes=("w-0", "w-1"),
)


class OneJob(FakeSlurm):
    """A Slurm whose one job looks as the test says."""

    def __init__(self, job: SlurmJob | None, *, reason: str = "remediator: i1 XID 79") -> None:
        super().__init__(ManualClock(), nodes=("w-0", "w-1"))
        self.only = job
        if reason:
            self.drain("w-0", reason, deadline=5.0)
        self.writes.clear()

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        return self.only

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        raise AssertionError(f"requeue of {job.address} reached Slurm{' held' if held else ''}")


def context(slurm: FakeSlurm) -> Context:
    return context_and_cluster(slurm)[0]


def context_and_cluster(slurm: FakeSlurm) -> tuple[Context, FakeCluster]:
    clock = ManualClock()
    guard = open_guard(clock)
    row = StepRow("i1", "release-jobs", RUN.key, "job", 4, "running")
    kube = FakeCluster(clock)
    kube.add_node("gpu-0")
    kube.fence(kube.view("gpu-0"), "i1", INCIDENT.drain_reason, cordon=True, deadline=5.0)
    ports = Ports(
        Scheduler(slurm, guard),
        Nodes(kube, guard),
        Spares(kube.spares, guard),
        Acceptance(kube.bench, guard),
    )
    return Context(INCIDENT, row, clock.now(), ports, Conduct(), RUN), kube


MOVED = {
    "a requeue that is saving": replace(
        JOB, state="PENDING", flags=frozenset({"COMPLETING"}), restart_count=1
    ),
    "the next run, on the same node": replace(JOB, restart_count=1, submit_time=130),
    "the next run, before its submit time moved": replace(JOB, restart_count=1),
    "another job under the same id": replace(JOB, submit_time=999),
    "a requeue that waits": replace(JOB, state="PENDING", nodes=(), restart_count=1, submit_time=130),
    "a job that ended": replace(JOB, state="COMPLETED"),
    "a job that left the node": replace(JOB, nodes=("w-1",)),
    "a forgotten job": None,
}


@pytest.mark.parametrize("job", MOVED.values(), ids=MOVED.keys())
def test_nothing_is_requeued_once_the_run_is_over(job: SlurmJob | None) -> None:
    step, here = ReleaseJobs(), context(OneJob(job))
    assert isinstance(step.check(here), Done | Wait)


SAVING = {
    "requeued and saving": MOVED["a requeue that is saving"],
    "cancelled and saving": replace(JOB, state="CANCELLED", flags=frozenset({"COMPLETING"})),
    "still counted as the old run": replace(JOB, flags=frozenset({"COMPLETING"})),
}


@pytest.mark.parametrize("job", SAVING.values(), ids=SAVING.keys())
def test_it_is_not_over_while_the_job_saves(job: SlurmJob) -> None:
    found = ReleaseJobs().check(context(OneJob(job)))
    assert isinstance(found, Wait)
    assert "is saving" in found.sentence


def test_a_job_slurm_has_forgotten_is_gone() -> None:
    found = ReleaseJobs().check(context(OneJob(None)))
    assert isinstance(found, Done)
    assert found.facts == {"gone": True}


@pytest.mark.parametrize(
    "name", ["the next run, on the same node", "another job under the same id", "a forgotten job"]
)
def test_the_write_itself_reads_again(name: str) -> None:
    ReleaseJobs().act(context(OneJob(MOVED[name])))


def test_the_known_run_on_the_drained_node_wants_its_requeue() -> None:
    slurm = OneJob(JOB)
    assert ReleaseJobs().check(context(slurm)) is None
    with pytest.raises(AssertionError, match="requeue of 7"):
        ReleaseJobs().act(context(slurm))


def test_a_run_over_the_cap_is_asked_to_end_held() -> None:
    capped = replace(
        context(OneJob(JOB)), run=RUN.model_copy(update={"held_because": "3 other machines failed"})
    )
    with pytest.raises(AssertionError, match="requeue of 7 reached Slurm held"):
        ReleaseJobs().act(capped)
    assert "hold it there" in ReleaseJobs().intention(INCIDENT, capped.run)


FORBIDDEN = {
    "its owner asks to leave it": replace(JOB, comment="remediator:leave"),
    "its owner gave up requeueing": replace(JOB, requeue=False),
    "suspended since": replace(JOB, state="SUSPENDED"),
    "a state nobody knows": replace(JOB, state="UNKNOWN"),
    "a state nobody knows, without nodes": replace(JOB, state="UNKNOWN", nodes=()),
}


@pytest.mark.parametrize("job", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_forbids_it_is_read_again_right_before(job: SlurmJob) -> None:
    here = context(OneJob(job))
    assert isinstance(ReleaseJobs().check(here), Wait if job.state == "UNKNOWN" else Hold)
    ReleaseJobs().act(here)


def test_a_component_that_moves_with_its_leader_holds_nothing() -> None:
    """People are called for a job that keeps the node, not for one that its leader's requeue takes along."""
    member = replace(JOB, het_job_id=JOB.job_id - 1, het_job_offset=1)
    outcome = ReleaseJobs().check(context(OneJob(member)))
    assert isinstance(outcome, Wait)
    assert "leader" in outcome.sentence


def test_a_job_that_may_go_after_all_goes() -> None:
    here = context(OneJob(JOB))
    told = replace(here, run=RUN.model_copy(update={"release": "tell-only", "why": "its comment said so"}))
    assert ReleaseJobs().check(told) is None


def test_a_neighbour_node_that_is_not_ours_needs_no_drain() -> None:
    """The job also holds w-1, which is healthy and no node of this incident."""
    assert ReleaseJobs().check(context(OneJob(JOB))) is None


@pytest.mark.parametrize("reason", ["", "admin: mine", "remediator: i2 another"])
def test_a_node_we_do_not_drain_keeps_its_job(reason: str) -> None:
    found = ReleaseJobs().check(context(OneJob(JOB, reason=reason)))
    assert isinstance(found, Wait)
    assert found.facts["again"] == "drain-slurm"


@pytest.mark.parametrize("undo", ["uncordon", "remove_node"])
def test_a_node_we_do_not_fence_keeps_its_job(undo: str) -> None:
    here, kube = context_and_cluster(OneJob(JOB))
    getattr(kube, undo)("gpu-0")
    found = ReleaseJobs().check(here)
    assert isinstance(found, Wait)
    assert found.facts["again"] == "fence-node"
