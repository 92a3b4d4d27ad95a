"""A dry run decides and records everything, writes nothing outside, and stands in nobody's way afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.audit import chain
from remediator.model.incident import GIVE_BACK, Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.policy.vetoes import NO_REPLACE
from remediator.settings import Stage
from remediator.store import schema
from remediator.workflow.attempt import attempt
from remediator.workflow.context import Context
from remediator.workflow.givenback import TAKEN_OUT_BY
from remediator.workflow.plans import PLANS
from remediator.workflow.step import Local, Writing
from remediator.workflow.steps import STEPS
from tests.crash.test_budgets import ONE_AT_ONCE
from tests.crash.test_river import assert_moved_once
from tests.fakes.river import River, no_probe


@pytest.fixture
def dry(tmp_path: Path) -> River:
    return River(tmp_path, dry_run=True)


def assert_nothing_written(river: River) -> None:
    assert river.slurm.writes == []
    assert [write for write in river.kube.writes if write.actor == "remediator"] == []


def records(river: River, action: str) -> list[dict[str, Any]]:
    with river.store.read() as connection:
        return [record for record in chain.read(connection) if record["action"] == action]


def rows(river: River, table: sa.Table) -> list[Any]:
    with river.store.read() as connection:
        return list(connection.execute(sa.select(table)))


def test_the_whole_plan_is_recorded_as_what_would_be_done(dry: River) -> None:
    job = dry.submit_job()
    dry.slurm.writes.clear()
    dry.xid("gpu-0")
    dry.run(30.0)
    assert_nothing_written(dry)
    (incident,) = dry.all_incidents()
    assert (incident.state, incident.dry_run) == ("closed", True)
    assert ": would drain, fence, move its jobs and replace it, because" in incident.sentence
    said = {record["step"]: record["why"] for record in records(dry, "outcome")}
    assert said.keys() == {one.name for one in PLANS["replace"] if one.stands(waits=False, read=False)}
    for name, step in STEPS.items():
        if isinstance(step, Writing) and name in said:
            assert said[name].startswith("would "), name
    assert said["drain-slurm"] == f"would set DRAIN on w-gpu-0, reason {incident.drain_reason!r}"
    assert said["release-jobs"].startswith(f"would requeue job {job} of alice")
    assert said["claim-spare"].startswith("would claim spare-0")
    assert said["close"] == "closed: a dry run, nothing was written"
    assert records(dry, "intent") == []


def test_a_dry_run_takes_no_run_no_spare_and_no_budget_from_anybody(tmp_path: Path) -> None:
    river = River(tmp_path, dry_run=True, budgets=ONE_AT_ONCE)
    river.submit_job()
    river.xid("gpu-0")
    river.run(30.0)
    for table in (schema.job_run, schema.spare, schema.debit):
        assert rows(river, table) == []


def test_owners_hear_nothing_and_operators_that_it_is_a_dry_run(dry: River) -> None:
    dry.submit_job()
    dry.xid("gpu-0")
    dry.run(30.0)
    messages = rows(dry, schema.outbox)
    assert messages
    for message in messages:
        assert (message.audience, message.urgency) == ("operators", "tell")
        assert message.text.startswith("dry run: ")


def test_a_job_that_is_left_alone_would_be_left_alone(dry: River) -> None:
    dry.submit_job(comment="remediator:leave")
    dry.xid("gpu-0")
    dry.run(30.0)
    said = {record["step"]: record["why"] for record in records(dry, "outcome")}
    assert said["release-jobs"].startswith("would leave job 1 alone")


@pytest.mark.parametrize("name", sorted(STEPS))
def test_no_step_writes_in_a_dry_run_even_if_the_guard_let_it(tmp_path: Path, name: str) -> None:
    """Two locks: the step does not try, and the guard would not let it."""
    river = River(tmp_path)
    job = river.submit_job()
    run = JobRun(job_id=job, submit_time=0, restart_count=0, address=str(job), user="alice")
    incident = Incident(
        id="i1", key="k", node="gpu-0", node_uid=river.kube.view("gpu-0").uid, boot_id="boot-gpu-0",
        slurm_nodes=("w-gpu-0",), tier="T0", rule="r", cause="XID 79", plan="replace", pool="training",
        fault_at=0.0, opened_at=0.0, dry_run=True,
    )  # fmt: skip
    facts = {TAKEN_OUT_BY: "i0"} if name in {planned.name for planned in PLANS[GIVE_BACK]} else {}
    row = StepRow("i1", name, run.key, "job", 0, "pending", facts=facts)
    spare = Spare(node="spare-0", uid=river.kube.view("spare-0").uid, incident="i1")
    river.slurm.writes.clear()
    for held in (None, spare):
        context = Context(incident, row, river.clock.now(), river.ports, river.conduct, run, (run,), held)
        step = STEPS[name]
        outcome = (
            step.conclude(incident, held, river.clock.now())
            if isinstance(step, Local)
            else attempt(step, context, may_act=True, probe=no_probe)
        )
        assert outcome is not None
    assert_nothing_written(river)


@settings(max_examples=20, deadline=None)
@given(
    stage=st.sampled_from(["observe", "drain-only", "move-jobs", "full"]),
    jobs=st.lists(
        st.sampled_from([{}, {"batch": False}, {"requeue": False}, {"comment": "remediator:leave"}]),
        max_size=2,
    ),
    codes=st.lists(st.sampled_from([79, 64, 54, 45, 13]), min_size=1, max_size=3),
    vetoed=st.booleans(),
    spares=st.integers(0, 1),
)
def test_whatever_happens_in_a_dry_run_nothing_is_written(
    stage: Stage, jobs: list[dict[str, Any]], codes: list[int], vetoed: bool, spares: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        river = River(Path(folder), dry_run=True, stage=stage, spares=spares)
        for fields in jobs:
            river.submit_job(width=1, **fields)
        if vetoed:
            river.kube.add_pod("team", "keep", "gpu-0", labels={NO_REPLACE: "true"})
        river.slurm.writes.clear()
        for seq, code in enumerate(codes):
            river.xid(f"gpu-{seq}", code, seq=seq)
        river.run(20.0)
        assert_nothing_written(river)
        assert all(one.dry_run for one in river.all_incidents() if one.state != "held")
        assert all("would" in record["why"] for record in records(river, "decision") if stage != "observe")
        river.store.close()


def test_a_veto_is_seen_in_a_dry_run_too(dry: River) -> None:
    dry.kube.add_pod("team", "keep", "gpu-0", labels={NO_REPLACE: "true"})
    dry.xid("gpu-0")
    dry.run(30.0)
    (incident,) = dry.all_incidents()
    assert incident.state == "held"
    said = {record["step"]: record["why"] for record in records(dry, "outcome")}
    assert "would taint gpu-0, not cordon it: vetoed by pod team/keep" in said["fence-node"]
    assert "vetoed by pod team/keep" in said["claim-spare"]


@pytest.mark.parametrize("held", [False, True])
def test_after_the_dry_run_the_same_node_is_treated_for_real(dry: River, held: bool) -> None:
    job = dry.submit_job()
    if held:
        dry.kube.add_pod("team", "keep", "gpu-0", labels={NO_REPLACE: "true"})
    dry.xid("gpu-0")
    dry.run(30.0)
    if held:
        dry.kube.remove_pod("team", "keep")
    dry.slurm.writes.clear()
    dry.kube.writes.clear()
    dry.dry_run = False
    dry.begin()
    dry.xid("gpu-0", seq=2)
    dry.run()
    real, rehearsed = dry.all_incidents()
    assert (real.dry_run, rehearsed.dry_run) == (False, True)
    assert {real.state, rehearsed.state} == {"closed"}
    assert river_moved(dry, job)


def river_moved(river: River, job: int) -> bool:
    seen = river.job(job)
    return (seen.state, seen.restart_count, river.slurm.count("requeue", str(job))) == ("RUNNING", 1, 1)


def test_a_dry_run_stops_what_is_under_way_and_its_end_lets_it_go_on(tmp_path: Path) -> None:
    river = River(tmp_path)
    job = river.submit_job()
    river.xid("gpu-0")
    while not river.kube.ours("gpu-0"):
        river.turn()
    river.dry_run = True
    river.begin()
    writes = len(river.slurm.writes), len(river.kube.writes)
    river.run(30.0)
    assert (len(river.slurm.writes), len(river.kube.writes)) == writes
    (incident,) = river.all_incidents()
    assert (incident.state, incident.dry_run) == ("held", False)
    assert any("dry_run is on: would " in record["why"] for record in records(river, "outcome"))
    river.dry_run = False
    river.begin()
    river.run()
    assert_moved_once(river, job)


def test_an_older_store_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.xid("gpu-0")
    river.run()
    with river.store.write() as connection:
        connection.exec_driver_sql("ALTER TABLE incident DROP COLUMN dry_run")
    river.store.close()
    again = River(tmp_path)
    assert [incident.dry_run for incident in again.all_incidents()] == [False]
