"""What people read about saved and lost work: `incidents show`, `plan NODE`, `doctor`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remediator.model.checkpoint import CheckpointLook, Checkpoints, JobKey, Saved
from remediator.model.run import JobRun
from remediator.policy import rules
from remediator.run.doctor.checkpoints import checkpoint_clock
from remediator.run.doctor.site import Site
from remediator.run.job_outlook import JobOutlook, too_slow
from remediator.run.outlook import Foresight
from remediator.settings import Cluster, Pool, Settings, Slurm, Store
from remediator.store import checkpoints
from remediator.workflow.loss import loss_of
from tests.fakes.river import River
from tests.unit.cli.test_incidents import World
from tests.unit.run.test_doctor import GOOD, SlurmAs

GLOB = "/shared/{job}/step_*"


def settings_of(river: River, **pool: Any) -> Settings:
    return Settings(
        cluster=Cluster(name="test"),
        slurm=Slurm(url="http://127.0.0.1:1"),
        store=Store(url=f"sqlite:///{river.folder}/river.db"),
        pools={"training": Pool(**({"node_selector": {"pool": "training"}, "stage": "full"} | pool))},
    )


def planned(river: River, **pool: Any) -> JobOutlook:
    settings = settings_of(river, checkpoint_glob=GLOB, **pool)
    foresight = Foresight(settings, river.store, river.slurm, river.kube.api, rules.load(), river.clock)
    (job,) = foresight.look("gpu-0", 79).jobs
    return job


def moved(folder: Path, *saved_ago: float) -> River:
    """A job of 8 GPUs that was moved; with times, an agent had seen it save so long before."""
    river = River(folder, glob=GLOB if saved_ago else "")
    job = river.submit_job(gpus=8)
    river.clock.advance(3600.0)
    saved = [river.clock.now() - ago for ago in saved_ago]
    if saved:
        river.sees_saved(job, *saved)
    river.xid("gpu-0")
    for _ in range(30):
        river.run(15.0)
        if saved:
            river.sees_saved(job, *saved)
    return river


def test_an_incident_says_when_the_last_complete_checkpoint_was_and_what_is_lost(tmp_path: Path) -> None:
    river = moved(tmp_path, 900.0, 450.0)
    world, (incident,) = World(tmp_path), river.all_incidents()
    assert incident.state == "closed"
    (line,) = [
        one for one in world.run("show", incident.id).stdout.splitlines() if one.startswith("job 1: last")
    ]
    loss = world.json("show", incident.id)["losses"]["job 1"]
    assert 450.0 < loss["before_s"] < 470.0
    assert loss["gpu_hours"] == pytest.approx(8 * loss["before_s"] / 3600, abs=0.01)
    seconds, hours = f"{loss['before_s']:.0f}", f"{loss['gpu_hours']:g}"
    assert line == f"job 1: last complete checkpoint {seconds} s before the stop; {hours} GPU-hours lost"


def test_what_nobody_saw_is_unknown_and_never_nothing(tmp_path: Path) -> None:
    river = moved(tmp_path)
    world, (incident,) = World(tmp_path), river.all_incidents()
    assert (
        "job 1: last complete checkpoint unknown, lost work unknown" in world.run("show", incident.id).stdout
    )
    loss = world.json("show", incident.id)["losses"]["job 1"]
    assert loss == {"checkpoint": None, "before_s": None, "lost_s": None, "gpus": 8, "gpu_hours": None}


@pytest.mark.parametrize(
    ("times", "began", "before", "lost"),
    [
        ((700.0,), 0.0, 300.0, 300.0),
        ((700.0, 950.0), 0.0, 50.0, 50.0),
        ((700.0,), 900.0, 300.0, 100.0),  # it began from that one
        ((700.0, 1100.0), 0.0, 300.0, 300.0),  # the next run's
        ((1100.0,), 0.0, None, None),
        ((), 400.0, None, 600.0),
        ((), None, None, None),
    ],
)
def test_lost_work_counts_from_the_last_complete_checkpoint_or_the_start(
    times: tuple[float, ...], began: float | None, before: float | None, lost: float | None
) -> None:
    run = JobRun(job_id=7, submit_time=1, restart_count=0, address="7", gpus=36, started_at=began)
    loss = loss_of(run, Saved(looked_at=1.0, known=True, times=times), 1000.0)
    assert (loss.before_s, loss.lost_s) == (before, lost)
    assert loss.gpu_hours == (None if lost is None else lost / 100)
    assert loss_of(run.model_copy(update={"gpus": None}), Saved(), 1000.0).gpu_hours is None


def test_a_plan_says_what_would_be_lost_and_that_a_save_is_too_slow(tmp_path: Path) -> None:
    river = River(tmp_path, glob=GLOB)
    job = river.submit_job(gpus=16)
    river.clock.advance(3600.0)
    assert planned(river).last_save == "last complete checkpoint unknown"
    assert planned(river).lost_gpu_hours is None
    river.sees_saved(job, river.clock.now() - 450.0, save_s=240.0)
    found = planned(river)
    assert found.last_save == (
        "last complete checkpoint step_1, 450 s ago; a save takes 240 s or more, and it gets 6 s"
    )
    assert found.lost_gpu_hours == 2.0
    river.sees_saved(job, river.clock.now() - 450.0, partial=("step_2", "step_3"))
    assert planned(river).last_save == (
        "last complete checkpoint step_1, 450 s ago; unfinished since: step_2, step_3"
    )
    river.sees_saved(job, partial=("step_2",))
    assert planned(river).last_save == "no complete checkpoint; unfinished since: step_2"


@pytest.mark.parametrize(
    ("save_s", "kill_wait", "warns"),
    [
        (None, 120, False),
        (100.0, 120, False),
        (121.0, 120, True),
        (121.0, 600, True),
        (50.0, 30, True),
        (121.0, None, True),
    ],
)
def test_a_save_longer_than_the_grace_is_too_slow(
    save_s: float | None, kill_wait: int | None, *, warns: bool
) -> None:
    assert bool(too_slow(save_s, kill_wait)) is warns


def doctor(river: River, **pool: Any) -> tuple[str, str]:
    (found,) = checkpoint_clock(Site(settings_of(river, **pool), SlurmAs(replace(GOOD)), river.clock))
    return found.level, found.says


def test_doctor_says_who_looks_at_checkpoints_and_which_saves_are_too_slow(tmp_path: Path) -> None:
    river = River(tmp_path, glob=GLOB)
    assert doctor(river) == ("ok", "not looked at: lost work stays unknown")
    assert doctor(river, timing="at-checkpoint")[0] == "warn"
    assert doctor(river, checkpoint_glob=GLOB) == ("warn", f"no agent looks at {GLOB}")
    river.sees_saved(7, river.clock.now(), save_s=30.0)
    assert doctor(river, checkpoint_glob=GLOB) == ("ok", "1 jobs seen by login-0")
    river.sees_saved(7, river.clock.now(), save_s=130.0)
    assert doctor(river, checkpoint_glob=GLOB)[1] == "job=7: a save takes 130 s or more, and it gets 120 s"
    blind = CheckpointLook(glob=GLOB, looked_s=0.0, problem="/shared: Permission denied")
    river.clock.advance(400.0)
    with river.store.write() as connection:
        checkpoints.put(connection, "login-0", [blind], river.clock.now())
    level, says = doctor(river, checkpoint_glob=GLOB)
    assert (level, says.endswith(": /shared: Permission denied")) == ("warn", True)


def test_a_job_is_found_by_its_number_address_user_and_name_and_by_nothing_else(tmp_path: Path) -> None:
    river = River(tmp_path)
    run = JobRun(job_id=12, submit_time=1, restart_count=0, address="9_3", name="llama", user="alice")
    keys = {
        JobKey(job="12"): True,
        JobKey(job="9_3"): True,
        JobKey(user="alice", jobname="llama"): True,
        JobKey(): True,
        JobKey(job="9"): False,
        JobKey(job="12", user="bob"): False,
        JobKey(user="alice", jobname="llama-2"): False,
    }
    for at, (key, wanted) in enumerate(keys.items()):
        look = CheckpointLook(
            glob=f"/g{at}/*", looked_s=5.0, found=(Checkpoints(key=key, newest="s", ages=(65.0,)),)
        )
        with river.store.write() as connection:
            checkpoints.put(connection, "login-0", [look], river.clock.now())
        with river.store.read() as connection:
            saved = checkpoints.of_run(connection, f"/g{at}/*", run)
        assert saved.known is wanted, key
        assert saved.newest_at == (river.clock.now() - 65.0 if wanted else None)
