"""Pools with `hold_until_fenced`: a job that lost its node waits for proof, for however long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remediator.clock import rfc3339
from remediator.errors import Ambiguous
from remediator.model.incident import HOLD_JOB
from remediator.run.lost_runs import LostRuns
from remediator.settings import Stage
from remediator.store import outbox
from remediator.workflow.silence import KUBELET_GRACE_S
from slurm_bridge.model import SlurmNode
from tests.crash.test_override import resume
from tests.crash.test_river import chain_is_whole
from tests.crash.test_silence import PROOFS, SICK, freeze, hush, power_off
from tests.fakes.river import WORKER, River
from tests.fakes.slurm_ctld import REQUEUE_DELAY

MOMENTS = [f"{step}:{moment}" for step in ("hold-jobs", "start-jobs") for moment in ("intent", "accepted")]


def holding(folder: Path, stage: Stage = "full") -> River:
    river = River(folder, stage=stage)
    pool = river.pools["training"].model_copy(update={"hold_until_fenced": True})
    river.pools = {"training": pool}
    river.conduct = replace(river.conduct, hold_until_fenced=frozenset(river.pools))
    river.begin()
    return river


@pytest.fixture
def river(tmp_path: Path) -> River:
    return holding(tmp_path)


def outlast(river: River) -> None:
    """Slurm's own delay passes."""
    river.run_through_crashes(20.0)
    river.clock.advance(REQUEUE_DELAY)
    river.run_through_crashes(8.0)


def stop_slurmd(river: River) -> None:
    """slurmd alone stands still until Slurm sets its node DOWN and requeues what ran there."""
    looks = LostRuns(river.slurm, river.inventory(), river.clock)
    hush(river)
    assert looks.look(nodes(river)) == []
    river.slurm._take_down(SICK, "Not responding", "slurm")
    river._submit(looks.look(nodes(river)))


def nodes(river: River) -> dict[str, SlurmNode]:
    return {node.name: node for node in river.slurm.nodes(deadline=5.0)}


def make_worker_anew(river: River) -> None:
    """A person deletes the worker's pod; the operator makes the next of its name before anybody looks."""
    river.kube.remove_pod("slurm", SICK)
    river.kube.add_pod("slurm", SICK, "gpu-0", labels=WORKER)
    born = {"metadata": {"creationTimestamp": rfc3339(river.clock.now())}}
    river.kube.change_pod("slurm", SICK, born)


def assert_held(river: River, job: int) -> None:
    seen = river.job(job)
    assert (seen.state, seen.held, seen.restart_count) == ("PENDING", True, 1)
    assert river.slurm.count("hold_job", str(job)) == 1
    assert river.slurm.count("unhold_job", str(job)) == 0


def assert_runs_once(river: River, job: int) -> None:
    seen = river.job(job)
    assert (seen.state, seen.restart_count, seen.held) == ("RUNNING", 1, False)
    assert SICK not in seen.nodes
    assert river.slurm.count("unhold_job", str(job)) == 1
    assert chain_is_whole(river)


def pages(river: River) -> str:
    with river.store.read() as connection:
        due = outbox.due(connection, river.clock.now())
    return " ".join(found.message.text for found in due if found.message.urgency == "page")


@pytest.mark.parametrize("proof", PROOFS)
def test_a_job_that_lost_a_silent_machine_waits_for_proof_however_long(river: River, proof: str) -> None:
    job = river.submit_job()
    freeze(river)
    outlast(river)
    assert_held(river, job)
    river.names = [name for name in river.names if name != "gpu-0"] if proof == "deleted" else river.names
    PROOFS[proof](river)
    river.run(20.0)
    assert_runs_once(river, job)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("whole_host", [True, False], ids=["host", "slurmd"])
def test_a_crash_at_any_moment_starts_no_second_copy(river: River, moment: str, whole_host: bool) -> None:
    job = river.submit_job()
    crashed = river.crash_at(moment)
    (freeze if whole_host else stop_slurmd)(river)
    outlast(river)
    assert_held(river, job)
    power_off(river)
    river.run_through_crashes(20.0)
    assert crashed == [moment]
    assert_runs_once(river, job)


@pytest.mark.parametrize("op", ["hold_job", "unhold_job"])
def test_a_lost_answer_is_looked_up_not_repeated(river: River, op: str) -> None:
    job = river.submit_job()
    lost: list[str] = []

    def after(name: str, target: str) -> None:
        if name == op and not lost:
            lost.append(target)
            raise Ambiguous(f"{name} {target}: the connection broke")

    river.slurm.after = after
    freeze(river)
    outlast(river)
    power_off(river)
    river.run(30.0)
    assert lost == [str(job)]
    assert_runs_once(river, job)
    assert river.slurm.count("hold_job", str(job)) == 1


def test_a_hold_that_slurmctld_forgot_is_set_again(river: River) -> None:
    job = river.submit_job()
    freeze(river)
    while not river.slurm.count("hold_job", str(job)):
        river.turn()
    river.turn()
    river.slurm.kill_ctld(forget=1)
    assert not river.job(job).held
    outlast(river)
    assert (river.job(job).state, river.job(job).held) == ("PENDING", True)
    assert river.slurm.count("hold_job", str(job)) == 2


def test_a_job_that_somebody_holds_stays_held(river: River) -> None:
    job = river.submit_job()
    river.slurm.hold(job)
    freeze(river)
    outlast(river)
    power_off(river)
    river.run(10.0)
    assert (river.job(job).state, river.job(job).held) == ("PENDING", True)
    assert river.slurm.count("unhold_job", str(job)) == 0


def test_a_person_who_releases_the_job_decides_for_it(river: River) -> None:
    job = river.submit_job()
    freeze(river)
    outlast(river)
    river.slurm.unhold_job(job, deadline=5.0)
    river.run(20.0)
    assert river.job(job).state == "RUNNING"
    assert river.slurm.count("hold_job", str(job)) == 1


def lose_and_hold(folder: Path) -> tuple[River, int]:
    """A job that lost its node is held, while nothing else is under way there."""
    river = holding(folder, "move-jobs")
    job = river.submit_job()
    freeze(river)
    river.run(30.0)
    assert_held(river, job)
    return river, job


@pytest.mark.parametrize("moment", ["undo-hold:intent", "undo-hold:accepted"])
def test_an_override_lifts_our_hold_on_proof(tmp_path: Path, moment: str) -> None:
    river, job = lose_and_hold(tmp_path)
    crashed = river.crash_at(moment)
    resume(river)
    river.kube.reboot("gpu-0", "boot-after-power-on")
    outlast(river)
    river.run(30.0)
    assert crashed == [moment]
    assert [found.state for found in river.all_incidents()] == ["overridden"]
    seen = river.job(job)
    assert (seen.state, seen.restart_count, seen.held) == ("RUNNING", 1, False)
    assert river.slurm.count("unhold_job", str(job)) == 1


def test_an_override_without_proof_leaves_the_job_held_and_says_how_to_release_it(tmp_path: Path) -> None:
    river, job = lose_and_hold(tmp_path)
    resume(river)
    outlast(river)
    river.run(30.0)
    assert [found.state for found in river.all_incidents()] == ["overridden"]
    assert_held(river, job)
    assert f"scontrol release {job}" in pages(river)


def test_a_slurmd_that_stops_alone_touches_no_node_and_its_job_waits_for_proof(river: River) -> None:
    job = river.submit_job()
    stop_slurmd(river)
    outlast(river)
    assert_held(river, job)
    (incident,) = river.open_incidents()
    assert incident.plan == HOLD_JOB
    assert incident.id in pages(river)
    assert {write.op for write in river.slurm.writes} == {"hold_job"}
    assert river.kube.ours("gpu-0") == []
    make_worker_anew(river)
    river.clock.advance(KUBELET_GRACE_S)
    river.run(30.0)
    assert_runs_once(river, job)
    assert [found.state for found in river.all_incidents()] == ["closed"]


def test_a_run_that_an_incident_moves_already_has_no_second_one(river: River) -> None:
    """Slurm's own DOWN comes right after the survey, before ours."""
    job = river.submit_job()
    freeze(river)
    while not any(row.track == "job" for found in river.all_incidents() for row in river.steps(found.id)):
        river.turn()
    stop_slurmd(river)
    outlast(river)
    assert_held(river, job)
    assert len(river.all_incidents()) == 1


def test_a_pool_that_does_not_ask_for_it_gets_no_hold(tmp_path: Path) -> None:
    river = River(tmp_path)
    job = river.submit_job()
    stop_slurmd(river)
    river.run(30.0)
    assert river.all_incidents() == []
    assert not river.job(job).held
