"""`remediator incidents` on a store that the whole river has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from remediator.cli.main import app
from remediator.model.incident import Incident
from remediator.store import incidents
from remediator.store.engine import open_store
from tests.fakes.river import River

SETTINGS = """
cluster: {name: test}
slurm: {url: "http://127.0.0.1:6820"}
pools: {training: {node_selector: {pool: training}}}
store: {url: "sqlite:///%s/river.db"}
"""


class World:
    """A settings file, a store beside it, and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "settings.yaml"
        self.settings.write_text(SETTINGS % folder)

    def run(self, *arguments: str) -> Result:
        command = ["incidents", *arguments, "--settings", str(self.settings)]
        return CliRunner().invoke(app, command, env={"COLUMNS": "200"})

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def treated(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, River, int]:
    """One node treated to the end, its job running elsewhere."""
    folder = tmp_path_factory.mktemp("river")
    river = River(folder)
    job = river.submit_job(save=3.0)
    river.xid("gpu-0")
    river.run()
    river.store.close()
    return World(folder), river, job


@pytest.fixture
def empty(tmp_path: Path) -> World:
    open_store(f"sqlite:///{tmp_path}/river.db").close()
    return World(tmp_path)


def test_the_list_names_each_incident(treated: tuple[World, River, int]) -> None:
    world, river, _ = treated
    (incident,) = river.all_incidents()
    done = world.run("list")
    assert done.exit_code == 0
    (line,) = [line for line in done.stdout.splitlines() if incident.id in line]
    assert {"gpu-0", "closed", "79"} <= set(line.split())


def test_the_list_as_json_is_the_incidents(treated: tuple[World, River, int]) -> None:
    world, river, _ = treated
    assert [Incident.model_validate(found) for found in world.json("list")] == river.all_incidents()


def test_an_empty_store_says_so(empty: World) -> None:
    done = empty.run("list")
    assert (done.exit_code, done.stdout) == (0, "no incidents\n")
    assert empty.json("list") == []


def test_the_list_has_a_limit(empty: World) -> None:
    store = open_store(f"sqlite:///{empty.folder}/river.db")
    with store.write() as connection:
        for number in range(4):
            incidents.insert(connection, incident(f"i{number}", opened_at=float(number)))
    store.close()
    assert [found["id"] for found in empty.json("list", "--limit", "2")] == ["i3", "i2"]


def test_an_incident_is_shown_as_a_story(treated: tuple[World, River, int]) -> None:
    world, river, job = treated
    (incident,) = river.all_incidents()
    done = world.run("show", incident.id)
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert text.startswith(f"{incident.id} gpu-0 closed {incident.sentence}")
    for part in ("set DRAIN on w-gpu-0", f"requeue job {job} of alice"):
        assert part in text
    assert "gpu-0: fault to decision" in text
    assert f"job {job}: fault to requeue" in text


def test_the_story_is_in_order_and_ends_with_the_close(treated: tuple[World, River, int]) -> None:
    world, river, job = treated
    story = world.json("show", river.all_incidents()[0].id)
    lines = story["timeline"]
    assert [line["after"] for line in lines] == sorted(line["after"] for line in lines)
    assert lines[0]["what"] == "decision"
    assert lines[-1]["what"] == "incident-closed"
    acts = [line["step"] for line in lines if line["what"] == "intent"]
    first = ["drain-slurm", "fence-node", f"release-jobs job {job}", f"start-jobs job {job}"]
    assert [act for act in acts if act in first] == first


def test_the_story_accounts_for_each_jobs_downtime(treated: tuple[World, River, int]) -> None:
    world, river, job = treated
    (incident,) = river.all_incidents()
    story = world.json("show", incident.id)
    phases = story["downtime"][f"job {job}"]
    assert [phase["name"] for phase in phases] == [
        "fault to requeue", "saving (SIGTERM to gone)", "delay lifted", "until the spare is in",
        "queue and start",
    ]  # fmt: skip
    assert phases[1]["seconds"] == pytest.approx(3.0, abs=1.0)
    assert set(story["downtime"]) == {"gpu-0", f"job {job}"}
    assert {step["state"] for step in story["steps"]} == {"done"}


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_unknown_incident_is_one_line_and_status_two(empty: World, flags: tuple[str, ...]) -> None:
    done = empty.run("show", "nothing-here", *flags)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: incident: there is no incident 'nothing-here'")
    assert "remediator incidents list" in line


@pytest.mark.parametrize("verb", [("list",), ("show", "x")])
def test_a_missing_store_is_one_line_and_status_two(tmp_path: Path, verb: tuple[str, ...]) -> None:
    done = World(tmp_path).run(*verb)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: store.url: no readable store there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["settings.yaml"]


@pytest.mark.parametrize("text", ["admin: [ticket 12]", "admin: [/]", "[bold]mine[/bold]", "a\\[b]"])
def test_somebody_elses_brackets_are_text(empty: World, text: str) -> None:
    """A reason that a person wrote into Slurm stands in sentences; it is no markup of ours."""
    store = open_store(f"sqlite:///{empty.folder}/river.db")
    with store.write() as connection:
        incidents.insert(connection, incident("i1", sentence=f"held: {text}", cause=text))
    store.close()
    for verb in (("list",), ("show", "i1")):
        done = empty.run(*verb)
        assert done.exit_code == 0, done.exception
        assert text in done.stdout


def test_brackets_in_the_record_are_text_too(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.slurm.drain("w-gpu-0", "admin: [/] [ticket 12]", deadline=5.0)
    river.xid("gpu-0")
    river.run(5.0)
    (held,) = river.all_incidents()
    river.store.close()
    done = World(tmp_path).run("show", held.id)
    assert done.exit_code == 0, done.exception
    assert "[/] [ticket 12]" in " ".join(done.stdout.split())


def incident(name: str, **changes: Any) -> Incident:
    base: dict[str, Any] = {
        "id": name, "key": name, "node": "gpu-0", "node_uid": "u", "boot_id": "b", "tier": "T0", "rule": "r",
        "cause": "XID 79", "plan": "replace", "fault_at": 1.0, "opened_at": 2.0,
    }  # fmt: skip
    return Incident(**(base | changes))
