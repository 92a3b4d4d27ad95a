"""Who waits for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_bridge.dependents import dependents
from slurm_bridge.model import SlurmJob

PARENT = SlurmJob(5, "RUNNING", name="train", user="alice", nodes=("gpu-0", "gpu-1"))
TASK = replace(PARENT, job_id=9, array_job_id=6, array_task_id=1)
MEMBER = replace(PARENT, job_id=8, het_job_id=7, het_job_offset=1)


def waiting(dependency: str, job_id: int = 20) -> SlurmJob:
    return SlurmJob(job_id, "PENDING", name="train", user="alice", dependency=dependency)


def kinds(of: SlurmJob, dependency: str) -> list[str]:
    return [found.kind for found in dependents(of, [PARENT, TASK, MEMBER, waiting(dependency)])]


@pytest.mark.parametrize(
    ("of", "dependency", "expected"),
    [
        (PARENT, "afterok:5(unfulfilled)", ["afterok"]),
        (PARENT, "afterany:4(unfulfilled),afternotok:5(unfulfilled)", ["afternotok"]),
        (PARENT, "afterok:5(unfulfilled)?afternotok:5(unfulfilled)", ["afterok", "afternotok"]),
        (PARENT, "after:5+10(unfulfilled)", ["after"]),
        (PARENT, "afterany:3:5", ["afterany"]),
        (PARENT, "afterok:55(unfulfilled)", []),
        (PARENT, "afterok:5(failed)", []),
        (PARENT, "singleton(unfulfilled)", ["singleton"]),
        (replace(PARENT, user="bob"), "singleton(unfulfilled)", []),
        (replace(PARENT, job_id=30), "singleton(unfulfilled)", []),
        (TASK, "afterok:6_*(unfulfilled)", ["afterok"]),
        (TASK, "aftercorr:6_*(unfulfilled)", ["aftercorr"]),
        (TASK, "afterok:6_1(unfulfilled)", ["afterok"]),
        (TASK, "afterok:6_2(unfulfilled)", []),
        (MEMBER, "afterok:7(unfulfilled)", ["afterok"]),
        (PARENT, "burst_buffer", ["unknown"]),
        (PARENT, "afterok:5(unfulfilled),???", ["unknown"]),
    ],
)
def test_a_dependency_is_read_as_slurm_writes_it(of: SlurmJob, dependency: str, expected: list[str]) -> None:
    assert kinds(of, dependency) == expected


def test_only_other_jobs_that_still_wait_are_dependents() -> None:
    itself = replace(waiting("afterany:5", job_id=5))
    started = replace(waiting("afterany:5"), state="RUNNING")
    assert dependents(PARENT, [itself, started, waiting("")]) == ()


@given(st.text(alphabet="afterokny:5_*+()?,", max_size=40))
def test_a_dependency_that_names_the_job_is_never_lost(junk: str) -> None:
    """Whatever stands beside it, it is found or counts as unknown."""
    assert kinds(PARENT, f"afterok:5(unfulfilled),{junk}")
