"""Two jobs crash on one node: it is drained, tested once it is idle, and given back or replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.audit import chain
from remediator.kube.spare import SpareKeys
from remediator.settings import Budgets, Crashes, Limit, MachineLimits, Pool
from remediator.store import strikes
from tests.fakes.river import River

MOMENTS = [
    f"{step}:{moment}"
    for step in ("drain-slurm", "fence-node", "validate-node", "unfence-node", "resume-slurm")
    for moment in ("intent", "accepted")
]


@pytest.fixture
def river(tmp_path: Path) -> River:
    return watched(River(tmp_path))


def watched(river: River, **changes: Any) -> River:
    base: dict[str, Any] = {"node_selector": {"pool": "training"}, "stage": "full"}
    river.pools = {"training": Pool(**(base | changes))}
    river.begin()
    river.watch_jobs()
    river.clock.advance(1.0)
    return river


def crashes(river: River, name: str, node: str = "gpu-0", *, user: str = "") -> int:
    """A job of one node that crashes there, and the look that sees it. Each name is another user's."""
    job = river.submit_job(width=1, name=name, user=user or f"of-{name}", required_nodes=(f"w-{node}",))
    assert river.job(job).nodes == (f"w-{node}",)
    river.clock.advance(10.0)
    river.slurm.fail(job)
    river.watch_jobs()
    return job


def lose_gpu(river: River, node: str) -> None:
    river.kube.outside(node, "gpu lost", {"status": {"allocatable": {"nvidia.com/gpu": "7"}}})


def settle(river: River, seconds: float = 90.0) -> None:
    """Long enough for a suspect's whole plan."""
    river.settle(seconds)


def plans(river: River) -> list[tuple[str, str]]:
    """Oldest first."""
    return [(one.plan, one.state) for one in reversed(river.all_incidents())]


def worker(river: River, name: str = "w-gpu-0") -> frozenset[str]:
    node = river.slurm.node(name, deadline=5.0)
    assert node is not None
    return node.flags


def assert_given_back(river: River, node: str = "gpu-0") -> None:
    assert plans(river) == [("validate", "closed"), ("give-back", "closed")]
    assert "DRAIN" not in worker(river, f"w-{node}")
    assert not river.kube.view(node).unschedulable
    assert {taint.key for taint in river.kube.view(node).taints} == {SpareKeys().worker}
    assert river.slurm.count("drain", f"w-{node}") == 1
    assert river.slurm.count("resume", f"w-{node}") == 1
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def test_one_crash_is_no_evidence(river: River) -> None:
    crashes(river, "one")
    settle(river)
    assert plans(river) == []
    assert river.slurm.writes == []
    assert river.kube.writes == []


def test_what_crashed_before_anybody_watched_is_held_against_no_node(tmp_path: Path) -> None:
    """A service that starts on an empty store finds what Slurm still shows of the minutes before."""
    river = River(tmp_path, stage="full")
    for name in ("one", "two"):
        job = river.submit_job(width=1, name=name, required_nodes=("w-gpu-0",))
        river.slurm.fail(job)
    river.clock.advance(1.0)
    river.watch_jobs()
    settle(river)
    assert plans(river) == []
    assert river.slurm.count("drain", "w-gpu-0") == 0
    with river.store.read() as connection:
        assert strikes.jobs_between(connection, 0.0, river.clock.now()) == 0


def test_jobs_of_two_users_make_a_node_suspect_and_a_passed_test_gives_it_back(river: River) -> None:
    crashes(river, "one")
    settle(river, 20.0)
    crashes(river, "two")
    settle(river)
    assert_given_back(river)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_of_the_controller_repeats_nothing(river: River, moment: str) -> None:
    crashed = river.crash_at(moment)
    crashes(river, "one")
    crashes(river, "two")
    settle(river, 120.0)
    assert crashed == [moment]
    assert_given_back(river)


def test_a_failed_test_replaces_the_node(river: River) -> None:
    lose_gpu(river, "gpu-0")
    crashes(river, "one")
    crashes(river, "two")
    settle(river)
    assert plans(river) == [("replace", "closed")]
    assert river.admitted() == ["spare-0"]
    assert river.worker_node("w-gpu-0") == "spare-0"
    assert river.kube.view("gpu-0").unschedulable


@pytest.mark.parametrize("stage", ["drain-only", "move-jobs"])
def test_below_stage_full_a_failed_test_leaves_it_drained(tmp_path: Path, stage: str) -> None:
    river = watched(River(tmp_path), stage=stage)
    lose_gpu(river, "gpu-0")
    crashes(river, "one")
    crashes(river, "two")
    settle(river)
    assert plans(river) == [("drain-only", "closed")]
    assert "DRAIN" in worker(river)
    assert river.worker_node("w-gpu-0") == "gpu-0"


def test_jobs_on_a_suspect_node_run_to_their_end(river: River) -> None:
    crashes(river, "one")
    crashes(river, "two")
    running = river.submit_job(width=1, name="three", required_nodes=("w-gpu-0",))
    settle(river, 60.0)
    assert river.job(running).state == "RUNNING"
    assert plans(river) == [("validate", "open")]
    assert "DRAIN" in worker(river)
    river.slurm.cancel(running)
    settle(river)
    assert river.slurm.count("requeue", str(running)) == 0
    assert_given_back(river)


def test_a_final_fault_overtakes_the_suspicion(river: River) -> None:
    crashes(river, "one")
    crashes(river, "two")
    running = river.submit_job(width=1, name="three")
    assert river.job(running).nodes == ("w-gpu-0",)
    settle(river, 30.0)
    assert plans(river) == [("validate", "open")]
    river.xid("gpu-0")
    settle(river, 120.0)
    assert plans(river) == [("replace", "closed")]
    assert river.slurm.count("requeue", str(running)) == 1
    assert (river.job(running).state, river.job(running).restart_count) == ("RUNNING", 1)
    assert river.worker_node("w-gpu-0") == "spare-0"


def test_what_a_passed_test_has_answered_counts_no_more(river: River) -> None:
    crashes(river, "one")
    crashes(river, "two")
    settle(river)
    crashes(river, "three")
    settle(river)
    assert_given_back(river)


def test_strikes_older_than_the_window_count_no_more(river: River) -> None:
    crashes(river, "one")
    settle(river, 20.0)
    river.clock.advance(7.1 * 86_400)
    crashes(river, "two")
    settle(river, 20.0)
    assert plans(river) == []


def test_one_users_resubmissions_are_one_witness(river: River) -> None:
    for _ in range(4):
        crashes(river, "debug")
        settle(river, 10.0)
    assert plans(river) == []


def test_two_users_with_the_same_job_name_are_two_witnesses(river: River) -> None:
    crashes(river, "train", user="alice")
    crashes(river, "train", user="bob")
    settle(river)
    assert_given_back(river)


def test_one_users_different_jobs_are_two_witnesses_only_where_the_settings_say_so(river: River) -> None:
    for name in ("one", "two"):
        crashes(river, name, user="service")
    settle(river)
    assert plans(river) == []
    river.limits = Crashes(witness="work")
    river.begin()
    crashes(river, "three", user="service")
    settle(river)
    assert_given_back(river)


def test_witnesses_more_than_a_day_apart_are_none(river: River) -> None:
    crashes(river, "one")
    settle(river, 20.0)
    river.clock.advance(1.1 * 86_400)
    crashes(river, "two")
    settle(river, 20.0)
    assert plans(river) == []


def test_a_node_that_crashes_not_much_more_than_its_peers_is_not_suspect(river: River) -> None:
    for node in ("gpu-1", "gpu-2", "gpu-3", "gpu-0"):
        crashes(river, "one", node)
    crashes(river, "two")
    settle(river)
    assert plans(river) == []


def test_a_machine_that_passes_its_tests_is_never_stranded_by_crashes(tmp_path: Path) -> None:
    river = watched(River(tmp_path, budgets=Budgets(machine=MachineLimits(remediations=2))))
    for number in range(3):
        crashes(river, f"one-{number}")
        crashes(river, f"two-{number}")
        settle(river)
        assert "DRAIN" not in worker(river)
        assert not river.kube.view("gpu-0").unschedulable
    assert plans(river) == [("validate", "closed"), ("give-back", "closed")] * 3


def test_a_lone_job_over_all_machines_is_off_the_bad_one_within_three_restarts(tmp_path: Path) -> None:
    """Its crashes name the machine by the kernel's line of a program's fault, and nothing else runs."""
    river = watched(River(tmp_path), restart_failed_jobs=True)
    lose_gpu(river, "gpu-2")
    job = river.submit_job(width=4)
    for number in range(4):
        if river.admitted():
            break
        river.clock.advance(10.0)
        river.xid("gpu-2", 13, seq=number + 1)
        river.clock.advance(5.0)
        river.slurm.fail(job)
        settle(river, 200.0)
    assert river.admitted() == ["spare-0"]
    assert river.kube.view("gpu-2").unschedulable
    assert river.job(job).state == "RUNNING"
    assert river.job(job).restart_count <= 3


def test_wide_jobs_that_crash_on_the_same_nodes_accuse_nobody(river: River) -> None:
    for name in ("one", "two"):
        job = river.submit_job(width=4, name=name, user=name)
        river.clock.advance(10.0)
        river.slurm.fail(job)
        river.watch_jobs()
    settle(river)
    assert plans(river) == []


def test_a_kernel_line_of_a_programs_fault_says_which_node_of_a_wide_job(river: River) -> None:
    for number, name in enumerate(("one", "two")):
        job = river.submit_job(width=4, name=name, user=name)
        river.clock.advance(10.0)
        river.xid("gpu-2", 13, seq=number + 1)
        river.clock.advance(5.0)
        river.slurm.fail(job)
        river.watch_jobs()
    settle(river)
    assert_given_back(river, "gpu-2")


def test_a_job_that_runs_on_after_xid_13_is_left_alone(river: River) -> None:
    job = river.submit_job(width=1)
    river.xid("gpu-0", 13)
    river.xid("gpu-0", 43, seq=2)
    settle(river)
    assert river.job(job).state == "RUNNING"
    assert plans(river) == []
    assert river.slurm.writes == []


def test_a_job_that_crashes_again_there_and_nowhere_else_makes_it_suspect(tmp_path: Path) -> None:
    river = watched(River(tmp_path), restart_failed_jobs=True)
    job = river.submit_job(width=1)
    for _ in range(2):
        assert river.job(job).nodes == ("w-gpu-0",)
        river.clock.advance(10.0)
        river.slurm.fail(job)
        settle(river, 20.0)
    settle(river)
    assert [plan for plan, _ in plans(river)].count("validate") == 1


def test_where_jobs_crash_again_elsewhere_too_one_of_them_needs_another_witness(tmp_path: Path) -> None:
    """Of the first nobody could know that it is one of many."""
    river = watched(River(tmp_path), restart_failed_jobs=True)
    for name, node in (("one", "gpu-0"), ("two", "gpu-2")):
        job = river.submit_job(width=1, name=name, user=name, required_nodes=(f"w-{node}",))
        for _ in range(2):
            river.clock.advance(10.0)
            river.slurm.fail(job)
            settle(river, 200.0)
    suspects = [one.node for one in river.all_incidents() if one.plan == "validate"]
    assert suspects == ["gpu-0"]


def test_a_job_that_crashes_everywhere_accuses_nobody(tmp_path: Path) -> None:
    river = watched(River(tmp_path), restart_failed_jobs=True)
    job = river.submit_job(width=1)
    for _ in range(3):
        where = river.job(job).nodes
        river.clock.advance(10.0)
        river.slurm.fail(job)
        river.submit_job(width=1, name="filler")  # takes the node meanwhile
        settle(river, 20.0)
        assert river.job(job).nodes != where
    assert {plan for plan, _ in plans(river)} == {"restart-job"}


def test_an_observing_pool_holds_the_suspicion_until_its_stage_is_raised(tmp_path: Path) -> None:
    river = watched(River(tmp_path), stage="observe")
    crashes(river, "one")
    crashes(river, "two")
    settle(river, 30.0)
    assert plans(river) == [("validate-only", "held")]
    assert river.slurm.writes == []
    watched(river)
    settle(river)
    assert_given_back(river)


def test_a_used_up_budget_holds_the_suspicion(tmp_path: Path) -> None:
    river = watched(River(tmp_path, budgets=Budgets(drain=Limit(at_least=1, percent=0, per_hour=None))))
    runs = []
    for node in ("gpu-0", "gpu-1"):
        crashes(river, "one", node)
        crashes(river, f"two-{node}", node)
        runs.append(river.submit_job(width=1, name="on", required_nodes=(f"w-{node}",)))
    settle(river, 30.0)
    assert sorted(state for _, state in plans(river)) == ["held", "open"]
    for run in runs:
        river.slurm.cancel(run)
    settle(river, 200.0)
    assert {state for _, state in plans(river)} == {"closed"}
