"""`remediator plan`: what would happen to a node now, by reads alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from remediator.cli import plan
from remediator.cli.main import app
from remediator.errors import BadInput, Blocked, Retry
from remediator.kube.readonly import ReadOnlyApi
from remediator.policy import rules
from remediator.run.outlook import Foresight, Outlook
from remediator.settings import Budgets, Cluster, Pool, Settings, Slurm, Stage
from remediator.store import commands, schema
from slurm_bridge.model import Reservation
from tests.fakes.river import River
from tests.unit.cli.test_incidents import World

VETO = "remediator.dev/no-replace"


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def foresight(river: River, stage: Stage = "full", **changes: Any) -> Foresight:
    settings = Settings(
        cluster=Cluster(name="test"),
        slurm=Slurm(url="http://127.0.0.1:1"),
        pools={"training": Pool(node_selector={"pool": "training"}, stage=stage)},
        **changes,
    )
    return Foresight(settings, river.store, river.slurm, river.kube.api, rules.load(), river.clock)


def dump(connection: sa.Connection) -> list[object]:
    """Every row of the store."""
    return [
        tuple(row)
        for table in schema.metadata.tables.values()
        for row in connection.execute(sa.select(table))
    ]


def look(river: River, stage: Stage = "full", xid: int = 79, **changes: Any) -> Outlook:
    """The outlook for gpu-0; by the way, it has written nothing anywhere."""
    with river.store.read() as connection:
        before = dump(connection)
    writes = list(river.slurm.writes), list(river.kube.writes)
    found = foresight(river, stage, **changes).look("gpu-0", xid)
    assert (river.slurm.writes, river.kube.writes) == writes
    with river.store.read() as connection:
        assert dump(connection) == before
    return found


def test_a_job_that_moves_is_named_with_what_is_at_stake(river: River) -> None:
    job = river.submit_job(gpus=16)
    started = river.job(job).start_time
    assert started is not None
    river.clock.advance(3600 * 2 - (river.clock.now() - started))
    found = look(river)
    assert (found.action, found.plan, found.stage) == ("act", "replace", "full")
    (seen,) = found.jobs
    assert (seen.address, seen.user, seen.kind, seen.released) == (str(job), "alice", "batch", True)
    assert (seen.gpu_hours, found.gpu_hours_at_stake) == (32.0, 32.0)
    assert "SIGTERM" in seen.what
    assert (found.spare, found.vetoes, found.maintenance, found.holds, found.unknown) == (
        "spare-0", (), (), (), (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"batch": False}, "interactive"),
        ({"requeue": False}, "no-requeue"),
        ({"comment": "remediator:leave"}, "leave"),
    ],
)
def test_a_job_that_is_left_alone_says_why_and_is_not_at_stake(
    river: River, fields: dict[str, Any], kind: str
) -> None:
    river.submit_job(width=1, gpus=8, **fields)
    river.clock.advance(3600)
    found = look(river)
    (seen,) = found.jobs
    assert (seen.kind, seen.released, found.gpu_hours_at_stake) == (kind, False, 0.0)
    assert "left alone" in seen.what
    assert "waits drained" in seen.what


def test_nobody_is_promised_a_sigterm_on_a_node_that_is_silent_now(river: River) -> None:
    river.submit_job(gpus=16)
    river.slurm.mark("w-gpu-0", flags=frozenset({"NOT_RESPONDING"}))
    found = look(river)
    (seen,) = found.jobs
    assert seen.released
    assert "to save" not in seen.what
    assert "requeued once, by DOWN, as w-gpu-0 cannot be reached" in seen.what
    assert "unsaved work since the last checkpoint is lost" in seen.what
    assert found.mute == ("w-gpu-0",)


def test_what_slurm_does_not_say_is_unknown_not_zero(river: River) -> None:
    river.submit_job(width=1)
    (seen,) = look(river).jobs
    assert (seen.gpus, seen.gpu_hours) == (None, None)


@pytest.mark.parametrize(
    ("stage", "action", "plan"),
    [
        ("observe", "hold", "replace"),
        ("drain-only", "act", "drain-only"),
        ("move-jobs", "act", "move-jobs"),
        ("full", "act", "replace"),
    ],
)
def test_the_pools_stage_decides_how_far_it_goes(river: River, stage: Stage, action: str, plan: str) -> None:
    river.submit_job(width=1)
    found = look(river, stage)
    assert (found.action, found.plan) == (action, plan)
    moves = (stage in {"move-jobs", "full"}, "not touched" in found.jobs[0].what)
    assert moves in {(True, False), (False, True)}


def test_a_fault_that_is_only_recorded_touches_no_job(river: River) -> None:
    river.submit_job(width=1)
    found = look(river, xid=43)
    assert found.action == "record"
    assert "not touched" in found.jobs[0].what
    assert found.spare is None


def test_it_agrees_with_what_then_happens(river: River) -> None:
    moved = river.submit_job()
    left = river.submit_job(width=1, requeue=False)
    found = look(river)
    river.xid("gpu-0")
    river.run()
    assert {job.address for job in found.jobs if job.released} == {str(moved)}
    assert (river.job(moved).restart_count, river.job(left).restart_count) == (1, 0)
    assert river.admitted() == [found.spare]
    assert river.all_incidents()[0].sentence == found.sentence


def test_everything_that_stands_in_the_way_is_named(river: River) -> None:
    river.kube.add_pod("slurm", "keeper", "gpu-0", labels={VETO: "true"})
    now = river.clock.now()
    maintenance = Reservation("fans", ("w-gpu-0",), ("root",), frozenset({"MAINT"}), now, now + 60)
    river.slurm.add_reservation(maintenance)
    river.slurm.drain("w-gpu-0", "ann: looking at it", deadline=5.0)
    with river.store.write() as connection:
        commands.set_paused(connection, "bob")
    found = look(river)
    assert [veto.split(":")[0] for veto in found.vetoes] == ["pod slurm/keeper"]
    assert found.maintenance == ("reservation fans plans maintenance on w-gpu-0",)
    assert found.holds == (
        "bob has paused all writing",
        "w-gpu-0 carries the reason 'ann: looking at it' already",
    )


def test_the_budget_and_an_open_incident_are_told(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=Budgets())
    river.submit_job(width=1, requeue=False)
    river.xid("gpu-0")
    river.run(10.0)
    found = look(river, budgets=Budgets())
    assert set(found.budgets) == {"drain_t0", "release", "evict", "replace"}
    assert (found.budgets["drain_t0"], "1 at once" in found.budgets["replace"]) == ("", True)
    assert any("the fault folds in" in hold for hold in found.holds)


def test_a_spare_of_another_incident_is_not_promised(river: River) -> None:
    for _ in range(2):
        river.submit_job(width=1, requeue=False)
    river.xid("gpu-1")
    river.run(10.0)
    found = look(river)
    assert found.spare is None
    assert any("spare-0" in reason for reason in found.spares_refused)


def test_a_sick_spare_is_not_its_own_replacement(river: River) -> None:
    river.kube.add_spare("spare-1", {"pool": "training"})
    river.names.append("spare-1")
    found = foresight(river).look("spare-0", 79)
    assert (found.plan, found.spare) == ("replace", "spare-1")


def test_what_cannot_be_read_is_said_and_never_taken_for_none(river: River) -> None:
    river.slurm.is_up = False

    asked: list[str] = []

    def before(op: str) -> None:
        asked.append(op)
        if asked.count("list pods") > 2:  # the first two are for the workers
            raise Retry("the API server is away")

    river.kube.before = before
    found = look(river)
    assert [line.split(":")[0] for line in found.unknown] == [
        "Slurm node w-gpu-0", "jobs", "KillWait", "spares", "pods (which counts as a veto)", "reservations",
    ]  # fmt: skip
    assert not found.knows_jobs


def test_an_unknown_node_is_refused(river: River) -> None:
    with pytest.raises(BadInput, match="there is no node 'nobody'"):
        foresight(river).look("nobody", 79)


def test_the_api_it_is_given_cannot_write(river: River) -> None:
    api = ReadOnlyApi(river.kube.api)
    with pytest.raises(Blocked, match="changes nothing"):
        api.patch("/api/v1/nodes/gpu-0", {}, deadline=1.0)
    with pytest.raises(Blocked, match="changes nothing"):
        api.post("/api/v1/pods", {}, deadline=1.0)
    with pytest.raises(Blocked, match="changes nothing"):
        api.delete("/api/v1/nodes/gpu-0", "u", deadline=1.0)
    assert river.kube.writes == []


def test_the_command_prints_it_for_people_and_as_json(river: River, monkeypatch: pytest.MonkeyPatch) -> None:
    job = river.submit_job(gpus=16)
    river.clock.advance(5400)
    monkeypatch.setattr(plan, "_foresight", lambda *_: foresight(river))
    settings = str(World(river.folder).settings)
    told = CliRunner().invoke(app, ["plan", "gpu-0", "--settings", settings], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert lines[0].startswith("gpu-0 is in pool training at stage full; Slurm workers on it: w-gpu-0")
    assert "XID 79 now → GPU fell off the bus" in lines[1]
    (row,) = [line for line in lines if "requeued once" in line]
    assert row.split()[:3] == [str(job), "alice", "train"]
    assert "spare: spare-0 would be claimed" in lines
    assert lines[-1] == "nothing was changed"
    as_json = CliRunner().invoke(app, ["plan", "gpu-0", "--settings", settings, "--json"])
    assert json.loads(as_json.stdout)["jobs"][0]["address"] == str(job)
