"""Which ends are crashes, and every reason that speaks against a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remediator.errors import BadInput
from remediator.model.job_end import JobEnd
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.policy.crashes import STORM, Crash, decide_restart, no_crash
from remediator.policy.rules import load

RUN = JobRun(job_id=12, submit_time=100, restart_count=0, address="12", user="alice", nodes=("w-0",))
END = JobEnd(run=RUN, job="12", work="alice/train", state="FAILED", code=1, began=1000.0, ended=2000.0)
CRASH = Crash(
    end=END,
    watching_since=500.0,
    covered="",
    stages=frozenset({"full"}),
    wanted=True,
    restarts=0,
    limit=3,
    lately=1,
    now=2010.0,
)


def handed_in(end: JobEnd) -> Signal:
    return Signal(
        source="slurm", node="", boot_id="", kind="job-ended", seen_at=2000.0, received_at=2001.0, dedupe="d",
        detail=end.model_dump(mode="json"),
    )  # fmt: skip


def ended(**changes: object) -> JobEnd:
    return END.model_copy(update=changes)


@pytest.mark.parametrize(
    ("end", "crash"),
    [
        (END, True),
        (ended(code=0, signal=11), True),
        (ended(code=139), True),
        (ended(code=2), True),
        (ended(state="NODE_FAIL", code=0), True),
        (ended(code=0), False),
        (ended(code=143), False),
        (ended(code=0, signal=15), False),
        (ended(code=130), False),
        (ended(code=0, signal=9), False),
        (ended(code=137), False),
        (ended(state="OUT_OF_MEMORY", signal=9), False),
    ],
)
def test_a_crash_is_an_end_nobody_asked_for(end: JobEnd, crash: bool) -> None:
    assert (no_crash(handed_in(end), load()) == "") is crash


def test_a_site_says_itself_which_exit_code_is_no_crash(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        "version: 1\nkinds: {job-ended: {samples: [{state: FAILED, exit_code: 77, signal: 0}]}}\nrules:\n"
        "  settings-are-wrong: {kinds: [job-ended], when: exit_code == 77, over: [job-crashed], tier: T3,\n"
        "    plan: record, cause: its settings are wrong, why: no restart mends them, source: our trainer}\n"
    )
    rules = load(overlay=site)
    assert no_crash(handed_in(ended(code=77)), rules) == "its settings are wrong"
    assert no_crash(handed_in(ended(code=78)), rules) == ""


def test_no_rule_takes_a_node_out_for_a_crash_alone(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("version: 1\nrules: {job-crashed: {plan: validate}}\n")
    with pytest.raises(
        BadInput, match=r"site\.yaml:2:23: .*no evidence against a node: record or restart-job"
    ):
        load(overlay=site)


def test_a_crash_without_evidence_restarts_the_job() -> None:
    found = decide_restart(CRASH)
    assert found.yes
    assert found.sentence == (
        "job 12 of alice exited with code 1 without evidence against a node: it is restarted"
    )


AGAINST = {
    "somebody ended the job, recorded": replace(CRASH, no_crash="somebody ended the job"),
    "before its end was watched": replace(CRASH, watching_since=2001.0),
    "Slurm itself requeues": replace(CRASH, end=ended(state="NODE_FAIL")),
    "--no-requeue": replace(
        CRASH, end=ended(run=RUN.model_copy(update={"release": "tell-only", "why": "of --no-requeue"}))
    ),
    "too long ago": replace(CRASH, now=2000.0 + 901),
    "at stage observe": replace(CRASH, stages=frozenset({"observe", "full"})),
    "at stage drain-only": replace(CRASH, stages=frozenset({"drain-only"})),
    "restart_failed_jobs is off": replace(CRASH, wanted=False),
    "points to what they share": replace(CRASH, lately=STORM + 1),
    "restarted 3 times and crashed again": replace(CRASH, restarts=3),
}


@pytest.mark.parametrize(("why", "crash"), AGAINST.items())
def test_each_reason_against_a_restart_is_said(why: str, crash: Crash) -> None:
    found = decide_restart(crash)
    assert not found.yes
    assert why in found.sentence


def test_a_job_whose_node_is_being_treated_is_restarted_whatever_the_pool_wants() -> None:
    found = decide_restart(replace(CRASH, covered="i1", wanted=False, lately=STORM + 1))
    assert found.yes
    assert "on a node of incident i1" in found.sentence


def test_the_owner_is_told_when_it_is_about_the_job() -> None:
    assert decide_restart(AGAINST["restarted 3 times and crashed again"]).tell
    assert not decide_restart(AGAINST["restart_failed_jobs is off"]).tell
