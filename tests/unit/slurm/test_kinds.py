"""One row of the table, one test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_bridge.kinds import TABLE, classify
from slurm_bridge.model import SlurmJob

SICK = frozenset({"gpu-0"})
PLAIN = SlurmJob(job_id=7, state="RUNNING", batch=True, requeue=True, nodes=("gpu-0", "gpu-1"))
CASES: dict[str, tuple[SlurmJob, str]] = {
    "unknown": (replace(PLAIN, state="UNKNOWN"), "tell-only"),
    "over": (replace(PLAIN, state="COMPLETED"), "tell-only"),
    "leave": (replace(PLAIN, comment="team=a,remediator:leave"), "tell-only"),
    "scrontab": (replace(PLAIN, traits=frozenset({"CRON_JOB"})), "tell-only"),
    "interactive": (replace(PLAIN, batch=False), "tell-only"),
    "no-requeue": (replace(PLAIN, requeue=False), "tell-only"),
    "required-nodes": (replace(PLAIN, required_nodes=("gpu-0",)), "tell-only"),
    "het-member": (replace(PLAIN, het_job_id=6, het_job_offset=1), "tell-only"),
    "suspended": (replace(PLAIN, state="SUSPENDED", held=True), "tell-only"),
    "pending": (replace(PLAIN, state="PENDING", nodes=(), held=True), "tell-only"),
    "held": (replace(PLAIN, held=True), "requeue"),
    "expedited": (replace(PLAIN, traits=frozenset({"EXPEDITED_REQUEUE"})), "requeue"),
    "het-leader": (replace(PLAIN, het_job_id=7), "requeue"),
    "array-task": (replace(PLAIN, array_job_id=7, array_task_id=2), "requeue"),
    "batch": (PLAIN, "requeue"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_job_of_each_kind(kind: str) -> None:
    job, act = CASES[kind]
    release = classify(job, SICK)
    assert (release.kind, release.act) == (kind, act)
    assert release.why


def test_every_row_has_its_case() -> None:
    assert [row.release.kind for row in TABLE] == list(CASES)


def test_another_nodes_name_in_required_nodes_does_not_matter() -> None:
    assert classify(replace(PLAIN, required_nodes=("gpu-1",)), SICK).act == "requeue"


@pytest.mark.parametrize("comment", ["remediator:leave", "x remediator:leave", "remediator:leave,y"])
def test_the_opt_out_is_one_word_of_the_comment(comment: str) -> None:
    assert classify(replace(PLAIN, comment=comment), SICK).kind == "leave"


@pytest.mark.parametrize("comment", ["remediator:leaven", "no-remediator:leave", "remediator: leave"])
def test_other_words_are_no_opt_out(comment: str) -> None:
    assert classify(replace(PLAIN, comment=comment), SICK).act == "requeue"


def test_only_jobs_that_run_on_keep_their_node() -> None:
    """People are called for these; what ends by itself or with its leader is merely waited for."""
    keepers = {kind for kind, (job, _) in CASES.items() if classify(job, SICK).keeps_the_node}
    told = {kind for kind, (_, act) in CASES.items() if act == "tell-only"}
    assert told - keepers == {"unknown", "over", "pending", "het-member"}
    assert keepers <= told
