"""The steps that ask nobody outside, and what a sentence says of a job."""

from __future__ import annotations

import pytest

from remediator.model.plan import Done, Hold
from remediator.model.spare import Spare
from remediator.workflow.runs import who
from remediator.workflow.steps import STEPS
from remediator.workflow.steps.admit import Admit
from remediator.workflow.steps.close import Close
from tests.unit.workflow.bench import RUN, Bench


@pytest.mark.parametrize(
    ("workers", "words"), [((), "no Slurm worker"), (("w-0",), "w-0"), (("w-0", "w-1"), "w-0, w-1")]
)
def test_admit_says_what_will_be_touched(workers: tuple[str, ...], words: str) -> None:
    bench = Bench(slurm_nodes=workers)
    done = Admit().check(bench.see())
    assert isinstance(done, Done)
    assert f"gpu-0 ({words})" in done.sentence


def test_a_machine_without_an_identity_is_not_admitted() -> None:
    nobody = Bench().incident.model_copy(update={"node_uid": ""})
    hold = Admit().conclude(nobody, None, 0.0)
    assert isinstance(hold, Hold)
    assert "no UID" in hold.sentence


@pytest.mark.parametrize(
    ("plan", "spare", "fate"),
    [
        ("drain-only", None, "gpu-0 stays drained and fenced"),
        ("move-jobs", None, "gpu-0 stays drained and fenced"),
        ("replace", None, "gpu-0 is out of its pool, without a replacement"),
        ("replace", "gpu-9", "gpu-9 replaces gpu-0, which is out of its pool"),
    ],
)
def test_close_says_how_long_it_took_and_what_became_of_the_node(
    plan: str, spare: str | None, fate: str
) -> None:
    incident = Bench().incident.model_copy(update={"plan": plan})
    taken = Spare(node=spare, uid="u", incident=incident.id, state="admitted") if spare else None
    done = Close().conclude(incident, taken, incident.fault_at + 12.3)
    assert isinstance(done, Done)
    assert done.sentence == f"closed 12.3 s after the fault; {fate}"


def test_a_job_is_named_with_its_user() -> None:
    assert who(RUN) == "job 7 of alice"
    assert who(RUN.model_copy(update={"user": ""})) == "job 7 of unknown"
    assert who(None) == "an unknown job"


def test_a_job_step_without_its_run_is_a_bug_that_is_named() -> None:
    with pytest.raises(LookupError, match=r"release-jobs .* 7\.100\.0"):
        _ = Bench().see(run=None, name="release-jobs", subject=RUN.key).the_run


def test_people_are_told_after_these_seconds() -> None:
    assert {name: step.bound_s for name, step in STEPS.items()} == {
        "admit": 0.05,
        "drain-slurm": 5.0,
        "await-idle": 604800.0,
        "validate-node": 300.0,
        "fence-node": 5.0,
        "survey": 10.0,
        "await-save": 604800.0,
        "hold-place": 5.0,
        "free-place": 5.0,
        "count-loss": 600.0,
        "claim-spare": 5.0,
        "validate-spare": 300.0,
        "await-empty": 180.0,
        "force-down": 5.0,
        "evict-pods": 180.0,
        "detach-node": 5.0,
        "admit-spare": 300.0,
        "rejoin-slurm": 120.0,
        "release-jobs": 180.0,
        "hold-jobs": 5.0,
        "start-jobs": 5.0,
        "prove-resume": 900.0,
        "accept-node": 300.0,
        "attach-node": 5.0,
        "unfence-node": 5.0,
        "resume-slurm": 120.0,
        "close": 5.0,
        "undo-fence": 30.0,
        "undo-drain": 120.0,
        "undo-place": 30.0,
        "undo-hold": 30.0,
        "undo-claim": 30.0,
        "yield": 5.0,
        "restart-job": 180.0,
    }
