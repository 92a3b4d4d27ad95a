"""Jobs that are given time on a node that is drained and fenced at once, and what ends that time."""

from __future__ import annotations

import re
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from rich.console import Console

from remediator.cli.incidents import story_of
from remediator.cli.timeline import print_story
from remediator.incidents.companions import COMPANIONS_S
from remediator.model.timing import CAP_S, Timing
from remediator.policy import rules
from remediator.store import outbox
from remediator.workflow.yielding import LATE_S
from tests.crash.test_river import MOMENTS, assert_moved_once
from tests.fakes.river import POOLS, River

GLOB = "/shared/{job}/step_*"
SOFT = 64
"""An XID whose rule is made one of soft evidence here."""

KEEPING = ("fence-node:accepted", "release-jobs:intent", "release-jobs:accepted", "claim-spare:intent")


@cache
def soft(timing: Timing) -> rules.Rules:
    with TemporaryDirectory() as folder:
        overlay = Path(folder) / "soft.yaml"
        overlay.write_text(f"version: 1\nrules: {{row-remap-failed: {{tier: T1, timing: {timing}}}}}\n")
        return rules.load(overlay=overlay)


def given(folder: Path, timing: Timing = "at-checkpoint", glob: str = GLOB) -> River:
    return River(folder, policy=soft(timing), glob=glob)


def soft_fault(river: River, node: str) -> None:
    """It was seen a minute ago: what comes with it is there."""
    river.xid(node, SOFT)
    river.clock.advance(COMPANIONS_S)


def pace(river: River, job: int, seconds: float, *saved_at: float) -> None:
    """So much time passes, with an agent that looks every 15 s and sees these saves; most of it in leaps."""
    until = river.clock.now() + seconds
    while river.clock.now() < until and (river.open_incidents() or not river.all_incidents()):
        river.sees_saved(job, *saved_at)
        river.run(4.0)
        river.clock.advance(11.0)


def assert_given_time(river: River, job: int) -> None:
    """Nobody may come onto the node, and nobody is asked to leave it; no spare is taken long before."""
    assert river.slurm.count("drain", "w-gpu-0") == 1
    assert river.kube.view("gpu-0").unschedulable
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)
    assert {write.op for write in river.slurm.writes} == {"drain"}
    assert [
        write for name in river.names if name.startswith("spare") for write in river.kube.ours(name)
    ] == []
    assert [incident.state for incident in river.all_incidents()] == ["open"]


def now_line(river: River) -> str:
    (incident,) = river.open_incidents()
    (row,) = [row for row in river.steps(incident.id) if row.name == "await-save"]
    return row.sentence


def shown(river: River) -> str:
    """What `incidents show` would print now."""
    with river.store.read() as connection:
        story = story_of(connection, river.all_incidents()[0].id)
    out = StringIO()
    print_story(story, Console(file=out, width=300), river.clock.now())
    return out.getvalue()


def test_a_job_runs_on_until_a_complete_checkpoint_is_newer_than_the_decision(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job(gpus=16)
    old = river.clock.now() - 300.0
    river.sees_saved(job, old)
    soft_fault(river, "gpu-0")
    pace(river, job, 60.0, old)
    assert_given_time(river, job)
    assert "runs on until it has saved, at the latest until " in now_line(river)
    assert re.search(rf"now: await-save job {job}: .* at the latest until \S+ \(for 1 min", shown(river))
    new = river.clock.now()
    pace(river, job, 300.0, old, new)
    assert_moved_once(river, job)


def test_it_is_moved_after_half_an_hour_all_the_same(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    pace(river, job, 30.0)
    river.clock.advance(CAP_S - 60.0)
    pace(river, job, 20.0)
    assert_given_time(river, job)
    pace(river, job, 300.0)
    assert_moved_once(river, job)


@pytest.mark.parametrize(("timing", "glob"), [("at-job-end", GLOB), ("at-checkpoint", "")])
def test_without_a_cap_it_is_left_to_its_own_end(tmp_path: Path, timing: Timing, glob: str) -> None:
    """So it is too when nobody reads checkpoints: nothing says that it will ever be seen to save."""
    river = given(tmp_path, timing, glob)
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    for _ in range(3):
        river.run(4.0)
        river.clock.advance(3 * CAP_S)
    assert_given_time(river, job)
    assert "it is left to its own end" in now_line(river)
    river.slurm.cancel(job)
    river.run()
    assert river.slurm.count("requeue", str(job)) == 0
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    assert river.admitted() == ["spare-0"]


def test_an_agent_that_looks_no_longer_does_not_take_the_cap_back(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    pace(river, job, 30.0)
    river.clock.advance(CAP_S)
    river.run()
    assert_moved_once(river, job)


@pytest.mark.parametrize("timing", ["at-checkpoint", "at-job-end"])
def test_final_evidence_on_the_same_machine_ends_the_wait(tmp_path: Path, timing: Timing) -> None:
    river = given(tmp_path, timing)
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    river.run(5.0)
    assert_given_time(river, job)
    river.xid("gpu-0", 79, seq=2)
    river.run()
    assert_moved_once(river, job)
    assert river.all_incidents()[0].timing == "now"


def test_evidence_that_changes_nothing_ends_no_wait(tmp_path: Path) -> None:
    river = given(tmp_path, "at-job-end")
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    for seq, code in enumerate((SOFT, SOFT, 13, 43, 45), start=2):
        river.xid("gpu-0", code, seq=seq)
        river.run(2.0)
    assert_given_time(river, job)


def test_final_evidence_on_another_machine_of_the_job_ends_it_too(tmp_path: Path) -> None:
    """The first incident owns the run, and would have left it on the dead machine."""
    river = River(tmp_path, policy=soft("at-job-end"), spares=2)
    job = river.submit_job(width=2)
    soft_fault(river, "gpu-0")
    river.run(5.0)
    river.xid("gpu-1", 79)
    river.run(600.0)
    assert river.slurm.count("requeue", str(job)) == 1
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)
    assert {incident.state for incident in river.all_incidents()} == {"closed"}


@pytest.mark.parametrize("moment", KEEPING)
def test_a_crash_at_any_moment_repeats_nothing_and_shortens_no_wait(tmp_path: Path, moment: str) -> None:
    assert moment in MOMENTS
    river = given(tmp_path)
    job = river.submit_job()
    old = river.clock.now() - 60.0
    river.sees_saved(job, old)
    crashed = river.crash_at(moment)
    soft_fault(river, "gpu-0")
    river.run_through_crashes(8.0)
    river.begin()  # and once more while it waits
    river.run_through_crashes(4.0)
    assert_given_time(river, job)
    new = river.clock.now()
    while river.open_incidents():
        river.sees_saved(job, old, new)
        river.run_through_crashes(4.0)
        river.clock.advance(11.0)
    assert crashed == [moment]
    assert_moved_once(river, job)


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_clock_that_is_set_makes_no_old_checkpoint_new(tmp_path: Path, seconds: float) -> None:
    river = given(tmp_path)
    job = river.submit_job()
    old = river.clock.now() - 60.0
    river.sees_saved(job, old)
    soft_fault(river, "gpu-0")
    pace(river, job, 20.0, old)
    river.own.set_by += seconds
    river.run(10.0)
    pace(river, job, 30.0, old)
    assert_given_time(river, job)
    pace(river, job, 300.0, old, river.clock.now())
    assert_moved_once(river, job)


def test_a_person_who_resumes_the_node_ends_it_all_and_the_job_is_left(tmp_path: Path) -> None:
    river = given(tmp_path, "at-job-end")
    job = river.submit_job()
    soft_fault(river, "gpu-0")
    river.run(40.0)
    river.slurm.resume("w-gpu-0", deadline=5.0)
    river.run(60.0 + LATE_S)
    assert [incident.state for incident in river.all_incidents()] == ["overridden"]
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 0)


def test_in_a_dry_run_nobody_waits(tmp_path: Path) -> None:
    river = River(tmp_path, policy=soft("at-job-end"), dry_run=True)
    river.submit_job()
    soft_fault(river, "gpu-0")
    river.run(30.0)
    (incident,) = river.all_incidents()
    assert incident.state == "closed"
    assert "would wait: job 1 runs on" in next(
        row.sentence for row in river.steps(incident.id) if row.name == "await-save"
    )


def losses(river: River) -> dict[str, Any]:
    (row,) = [row for row in river.steps(river.all_incidents()[0].id) if row.name == "count-loss"]
    return dict(row.facts["loss"])


def test_what_was_not_saved_is_counted_from_the_newest_complete_checkpoint(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job(gpus=16)
    saved = river.clock.now() + 100.0
    river.clock.advance(450.0)
    river.sees_saved(job, saved)
    river.xid("gpu-0", 79)
    pace(river, job, 400.0, saved)
    assert_moved_once(river, job)
    loss = losses(river)
    assert 350.0 < loss["before_s"] == loss["lost_s"] < 370.0
    assert loss["gpu_hours"] == pytest.approx(16 * loss["lost_s"] / 3600, abs=0.01)


def test_a_save_at_the_end_counts_and_one_of_the_next_run_does_not(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job(gpus=8, save=4.0)
    old = river.clock.now() - 60.0
    river.sees_saved(job, old)
    river.xid("gpu-0", 79)
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    last = river.clock.now() + 3.0
    river.run(20.0)
    pace(river, job, 400.0, old, last, river.clock.now())
    assert losses(river)["lost_s"] < 5.0


def test_a_job_that_never_saved_has_lost_all_since_its_start(tmp_path: Path) -> None:
    river = given(tmp_path)
    job = river.submit_job(gpus=8)
    river.clock.advance(900.0)
    river.sees_saved(job, writing=True)
    river.xid("gpu-0", 79)
    pace(river, job, 400.0)
    loss = losses(river)
    assert (loss["checkpoint"], loss["before_s"]) == ("", None)
    assert 900.0 < loss["lost_s"] < 930.0


def test_a_job_with_nothing_but_unfinished_checkpoints_is_held_and_people_are_told(tmp_path: Path) -> None:
    """Restarted, it would fail on them again and again, or silently begin from nothing."""
    river = given(tmp_path)
    job = river.submit_job()
    river.sees_saved(job, partial=("step_1100",))
    river.xid("gpu-0", 79)
    river.run(120.0)
    assert river.job(job).held
    with river.store.read() as connection:
        told = [one.message.text for one in outbox.due(connection, river.clock.now())]
    assert any("its only checkpoints are unfinished: step_1100" in text for text in told)


def watching(folder: Path, **changes: Any) -> River:
    """The ends of jobs have been watched for a while."""
    river = given(folder)
    river.pools = {"training": POOLS["training"].model_copy(update=changes)}
    river.begin()
    river.watch_jobs()
    river.clock.advance(1.0)
    return river


def test_a_crash_says_what_it_cost(tmp_path: Path) -> None:
    """From the newest complete checkpoint to the job's own end, whenever it was seen and restarted."""
    river = watching(tmp_path, restart_failed_jobs=True)
    job = river.submit_job(gpus=16)
    river.clock.advance(450.0)
    saved = river.clock.now() - 300.0
    river.sees_saved(job, saved)
    river.slurm.fail(job)
    ended = river.clock.now()
    for _ in range(12):
        river.sees_saved(job, saved)
        river.settle(15.0)
    assert [(one.plan, one.state) for one in river.all_incidents()] == [("restart-job", "closed")]
    loss = losses(river)
    assert loss["lost_s"] == pytest.approx(ended - saved, abs=1.5)
    assert loss["gpu_hours"] == pytest.approx(16 * loss["lost_s"] / 3600, abs=0.01)
    assert f"{loss['gpu_hours']:g} GPU-hours lost" in shown(river)


@pytest.mark.parametrize("agent", [True, False])
def test_what_a_crash_cost_is_unknown_where_nobody_saw_a_checkpoint(tmp_path: Path, agent: bool) -> None:
    river = watching(tmp_path, restart_failed_jobs=True)
    job = river.submit_job(gpus=16)
    if agent:
        river.sees_saved(river.submit_job(width=1), river.clock.now())
    river.slurm.fail(job)
    river.settle(90.0)
    assert "last complete checkpoint unknown, lost work unknown" in shown(river)


@pytest.mark.parametrize("partial", [(), ("step_1100",)])
def test_a_job_that_dies_at_its_start_by_a_broken_checkpoint_speaks_against_no_node(
    tmp_path: Path, partial: tuple[str, ...]
) -> None:
    """FC-O26: the node would get the blame, the second time it is drained."""
    river = watching(tmp_path)
    for name in ("one", "two"):
        job = river.submit_job(width=1, name=name, user=name, required_nodes=("w-gpu-0",))
        river.sees_saved(job, river.clock.now() - 900.0, partial=partial)
        river.slurm.fail(job)
        river.settle(15.0)
    assert river.slurm.count("drain", "w-gpu-0") == (0 if partial else 1)


def test_a_crashed_job_with_nothing_but_unfinished_checkpoints_is_held_too(tmp_path: Path) -> None:
    river = watching(tmp_path, restart_failed_jobs=True)
    job = river.submit_job(width=1)
    river.sees_saved(job, partial=("step_1100",))
    river.slurm.fail(job)
    river.settle(30.0)
    assert (river.job(job).held, river.job(job).restart_count) == (True, 1)
