"""Whom force may end: runs that had their whole grace, and whose next run waits for Slurm's delay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.workflow.occupants import may_be_forced
from slurm_bridge.model import SlurmJob
from tests.unit.workflow.bench import JOB, RUN, Bench

SAVING = replace(JOB, state="PENDING", flags=frozenset({"COMPLETING"}), restart_count=1)


def forced(*left: SlurmJob, release: str = "requeue") -> bool:
    return may_be_forced(Bench().see(runs=(RUN.model_copy(update={"release": release}),)), list(left))


def test_a_requeued_run_that_does_not_end_may_be_forced() -> None:
    assert forced(SAVING)
    assert forced()


KEPT = {
    "not requeued yet": JOB,
    "not one of ours": replace(SAVING, job_id=8),
    "expedited": replace(SAVING, traits=frozenset({"EXPEDITED_REQUEUE"})),
}


@pytest.mark.parametrize("job", KEPT.values(), ids=KEPT.keys())
def test_none_is_forced_while_one_may_not_be(job: SlurmJob) -> None:
    assert not forced(job)
    assert not forced(SAVING, job)


def test_a_run_that_was_left_alone_is_never_forced() -> None:
    assert not forced(SAVING, release="tell-only")
