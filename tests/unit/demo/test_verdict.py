"""The demo's verdict: each promise that does not hold is named, and only then does it fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.demo.breaks import Break
from deploy.lab.demo.jobs import Job, Run
from deploy.lab.demo.report import JOB_STEPS, NODE_STEPS, print_report, promises
from deploy.lab.demo.screen import Screen
from deploy.lab.demo.verdict import SCHEDULING_S, Bystander, Result, harm, problems
from remediator.workflow.plans import PLANS

SHA = "7288fd74"
VICTIM = Job("5", 5, "COMPLETED", "None", 1, ("worker-0", "worker-1"), 1, started_at=112, ended_at=126)
OLDER = replace(VICTIM, address="1", job_id=1, state="RUNNING", restarts=0, started_at=127, ended_at=999)


def good() -> Result:
    """What is seen when everything holds."""
    line = {"after": 0.08, "what": "done", "step": "drain-slurm", "why": "Slurm drains worker-0"}
    return Result(
        sick_node="gpu-0",
        spare="gpu-4",
        moved_worker="worker-0",
        fault_at=100.0,
        nodes_before=frozenset(VICTIM.nodes),
        victim=VICTIM,
        older=OLDER,
        story={"timeline": [line], "downtime": {"job 5": [{"name": "queue and start", "seconds": 12.0}]}},
        trained={"restarts": 1, "steps_recomputed": 0, "sha256": SHA},
        reference={"sha256": SHA},
        audit={"ok": True, "records": 41},
        terms={"0": 1, "1": 1},
        resumed_at=150,
        saved_at=150,
        worker_is_on="gpu-4",
        bystanders=(Bystander("job 4 (salloc)"),),
    )


LIES: dict[str, tuple[str, dict[str, Any]]] = {
    "restarted twice": ("requeue", {"trained": {"restarts": 2, "steps_recomputed": 0, "sha256": SHA}}),
    "told twice": ("requeue", {"terms": {"0": 2, "1": 1}}),
    "went back": ("resume", {"resumed_at": 100}),
    "other weights": ("resume", {"reference": {"sha256": "0"}}),
    "worker elsewhere": ("spare", {"worker_is_on": "gpu-0"}),
    "worker nowhere": ("spare", {"worker_is_on": ""}),
    "other nodes": ("spare", {"victim": replace(VICTIM, nodes=("worker-1", "worker-2"))}),
    "older first": ("queue", {"older": replace(OLDER, started_at=105)}),
    "older at once": ("queue", {"older": replace(OLDER, started_at=VICTIM.started_at)}),
    "older late": ("queue", {"older": replace(OLDER, started_at=VICTIM.ended_at + SCHEDULING_S + 1)}),
    "reservation left": ("queue", {"reservations": ("remediator_i_5",)}),
    "bystander hurt": ("untouched", {"bystanders": (Bystander("job 4 (salloc)", "is FAILED"),)}),
    "record changed": ("audit", {"audit": {"ok": False, "records": 41, "broken_at": 3, "problem": "hash"}}),
}


def show(result: Result, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    status = print_report(Screen(), result)
    return status, capsys.readouterr().out.splitlines()


def test_all_that_holds_is_one_line_each_and_ends_in_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = show(good(), capsys)
    assert status == 0
    assert lines[-7:] == [
        f"weights: {SHA} == {SHA}",
        "restarts: 1, steps recomputed: 0",
        "spare: gpu-4 in for gpu-0",
        "queue: job 5 came back first, no reservation left, "
        "job 1 (older) started 1 s after the nodes were free",
        "untouched: job 4 (salloc)",
        "audit: ok (41 records)",
        "PASS",
    ]
    assert any("Slurm drains worker-0" in line for line in lines)
    assert "job 5: 12.0 s = queue and start 12.0 s" in lines


@pytest.mark.parametrize("lie", LIES)
def test_whatever_does_not_hold_fails_and_is_named_in_one_line(
    lie: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, change = LIES[lie]
    status, lines = show(replace(good(), **change), capsys)
    assert status == 1
    assert lines[-1].startswith(f"FAIL {name}: ")
    assert "PASS" not in lines


def test_the_timeline_leaves_no_step_of_a_replacement_out() -> None:
    left_out = {
        "admit",
        "survey",
        "await-save",
        "await-empty",
        "force-down",
        "hold-jobs",
        "count-loss",
        "close",
    }
    assert {planned.name for planned in PLANS["replace"]} - left_out == {*JOB_STEPS, *NODE_STEPS}


def test_every_sabotage_has_a_promise_that_is_named_after_it() -> None:
    named = {name for name, _ in LIES.values()}
    assert {one.value for one in Break if one} <= named


def test_an_unknown_sabotage_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"'resum': use one of resume, requeue, spare, queue, audit"):
        Break.from_environment({"DEMO_BREAK": "resum"})


def test_what_is_promised_is_told_also_when_it_does_not_hold() -> None:
    for _, change in LIES.values():
        result = replace(good(), **change)
        assert [name for name, _ in promises(result)] == [
            "weights", "restarts", "spare", "queue", "untouched", "audit",
        ]  # fmt: skip
        assert any(problems(result))


def trained_on(folder: Path) -> None:
    pass


def told(folder: Path) -> None:
    with (folder / "events.log").open("a") as log:
        log.write("TERM rank=0 restart=0 step=7 time=2.0\n")


def begun_again(folder: Path) -> None:
    with (folder / "events.log").open("a") as log:
        log.write("START rank=0 restart=0 step=7 time=2.0\n")


def stopped(folder: Path) -> None:
    (folder / "reached").write_text("00000005\n")


@pytest.mark.parametrize(
    ("happened", "says"), [(trained_on, ""), (told, "signalled"), (begun_again, "again"), (stopped, "still")]
)
def test_a_bystander_is_untouched_when_it_trained_on_unsignalled(
    tmp_path: Path, happened: Callable[[Path], None], says: str
) -> None:
    (tmp_path / "events.log").write_text("START rank=0 restart=0 step=0 time=1.0\n")
    (tmp_path / "reached").write_text("00000009\n")
    happened(tmp_path)
    found = harm(OLDER, Run(tmp_path), steps_before=5)
    assert says in found
    assert bool(found) == bool(says)


def test_a_bystander_that_ended_or_was_requeued_was_touched(tmp_path: Path) -> None:
    assert "FAILED" in harm(replace(OLDER, state="FAILED"), Run(tmp_path), 0)
    assert "1 restarts" in harm(replace(OLDER, restarts=1), Run(tmp_path), 0)
