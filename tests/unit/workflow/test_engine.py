"""What the engine adds to the steps: bounds that people hear of, and one owner for each job run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.audit import chain
from remediator.model.plan import StepRow
from remediator.policy.vetoes import NO_REPLACE
from remediator.store import steps
from remediator.workflow.steps import STEPS
from tests.fakes.river import River


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def records(river: River, **wanted: str) -> list[dict[str, Any]]:
    with river.store.read() as connection:
        return [found for found in chain.read(connection) if wanted.items() <= found.items()]


def step(river: River, name: str) -> StepRow:
    (incident,) = river.all_incidents()
    with river.store.read() as connection:
        (row,) = [row for row in steps.of_incident(connection, incident.id) if row.name == name]
    return row


def test_a_step_past_its_bound_is_told_once_and_goes_on(river: River) -> None:
    river.slurm.is_up = False
    river.xid("gpu-0")
    river.run(STEPS["drain-slurm"].bound_s + 30.0)
    (told,) = records(river, action="overdue")
    assert (told["step"], told["target"]) == ("drain-slurm", "gpu-0")
    assert step(river, "drain-slurm").overdue
    river.slurm.is_up = True
    river.run()
    assert [incident.state for incident in river.all_incidents()] == ["closed"]
    assert len(records(river, action="overdue", step="drain-slurm")) == 1


def test_a_step_within_its_bound_is_not_told(river: River) -> None:
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    assert records(river, action="overdue") == []


def test_a_new_life_tells_an_overdue_step_no_second_time(river: River) -> None:
    river.slurm.is_up = False
    river.xid("gpu-0")
    river.run(20.0)
    river.begin()
    river.run(20.0)
    assert len(records(river, action="overdue")) == 1


def test_a_job_that_is_left_alone_adds_no_records_while_it_runs(river: River) -> None:
    river.submit_job(width=1, requeue=False)
    river.xid("gpu-0")
    river.run(10.0)
    before = len(records(river))
    river.run(60.0)
    assert len(records(river)) == before


def test_a_dead_slurm_does_not_fill_the_record(river: River) -> None:
    """What cannot be looked at is not attempted, however often it is looked for."""
    river.slurm.is_up = False
    river.xid("gpu-0")
    river.run(120.0)
    intents = [record["step"] for record in records(river, action="intent")]
    assert sorted(intents) == ["drain-slurm", "fence-node"]


def test_a_hold_and_its_end_are_recorded_once(river: River) -> None:
    river.kube.outside("gpu-0", "label", {"metadata": {"labels": {NO_REPLACE: "true"}}}, by="admin")
    river.xid("gpu-0")
    river.run(60.0)
    assert len(records(river, action="incident-held")) == 1
    river.kube.outside("gpu-0", "label", {"metadata": {"labels": {NO_REPLACE: "false"}}}, by="admin")
    river.run()
    assert len(records(river, action="incident-resumed")) == 1
    assert [incident.state for incident in river.all_incidents()] == ["closed"]


def test_the_second_incident_of_a_job_only_watches_it(river: River) -> None:
    job = river.submit_job()
    river.xid("gpu-0")
    river.xid("gpu-1")
    river.run()
    owner, watcher = records(river, action="job-run")
    assert "requeue" in owner["why"]
    assert watcher["why"] == f"job {job} is already being moved by incident {owner['incident']}"
    assert records(river, incident=watcher["incident"], step="release-jobs") == []
    assert records(river, incident=watcher["incident"], step="prove-resume")[-1]["outcome"] == "done"
    assert river.slurm.count("requeue", str(job)) == 1


@pytest.mark.parametrize("save", [0.5, 5.0])
def test_an_incident_that_comes_while_the_job_saves_asks_for_nothing(river: River, save: float) -> None:
    job = river.submit_job(save=save)
    river.xid("gpu-0")
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    river.xid("gpu-1")
    river.run()
    assert len(records(river, action="intent", step="release-jobs")) == 1
    assert river.slurm.count("requeue", str(job)) == 1
    assert [incident.state for incident in river.all_incidents()] == ["closed", "closed"]
    assert river.job(job).nodes == ("w-gpu-2", "w-gpu-3")


def test_every_job_run_is_named_in_the_record(river: River) -> None:
    job = river.submit_job()
    river.xid("gpu-0")
    river.run()
    (found,) = records(river, action="job-run")
    assert found["target"] == str(job)
    assert found["why"].startswith(f"job {job} of alice is to be requeued")


def test_every_record_of_a_step_has_its_operation(river: River) -> None:
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    (incident,) = river.all_incidents()
    for found in records(river):
        if found["action"] in {"intent", "outcome"}:
            parts = [found["incident"], found["step"], found["subject"], str(found["attempt"])]
            assert found["operation"] == ":".join(part for part in parts if part)
            assert found["incident"] == incident.id
