"""`remediator incidents` on a store that the whole river has written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from remediator.audit import chain
from remediator.cli.main import app
from remediator.model.incident import Incident
from remediator.store import commands, incidents
from remediator.store.commands import Command
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
    assert re.search(r"gpu-0: \d+\.\d s = fault to decision", text)
    assert re.search(rf"job {job}: \d+\.\d s = fault to requeue", text)


def test_the_story_is_told_in_words_and_no_sentence_twice(treated: tuple[World, River, int]) -> None:
    world, river, _ = treated
    (incident,) = river.all_incidents()
    lines = world.run("show", incident.id).stdout.splitlines()
    text = "\n".join(lines)
    assert "fault at 2027-01-15T08:00:02.000Z, ended" in text
    assert "decided  plan replace, evidence of tier T0, rule " in text
    assert not {"intent", "outcome", "job-run", "incident-closed", "tell-only"} & set(text.split())
    assert text.count(incident.sentence) == 1
    assert text.count("replaces gpu-0, which is out of its pool") == 1
    assert "now:" not in text


def test_an_open_incident_ends_with_what_it_waits_for_and_who_holds_it(tmp_path: Path) -> None:
    river = River(tmp_path)
    job = river.submit_job(requeue=False)
    river.kube.add_pod("slurm", "keeper", "gpu-0", labels={"remediator.dev/no-replace": "true"})
    river.xid("gpu-0")
    river.run(30.0)
    (held,) = river.all_incidents()
    with river.store.write() as connection:
        incidents.update(connection, held.id, held_by="ann")
    lines = World(tmp_path).run("show", held.id).stdout.splitlines()
    assert lines[0] == f"{held.id}  gpu-0  held by ann"
    now = [line for line in lines if line.startswith(("now: ", "held: "))]
    assert any(line.startswith(f"held: release-jobs job {job}: job {job} is left alone (") for line in now)
    assert any(line.startswith("held: claim-spare: vetoed by pod slurm/keeper") for line in now)
    assert not any(line.endswith(" = ") for line in lines)


def test_a_return_is_a_story_without_a_fault(tmp_path: Path) -> None:
    river = River(tmp_path, stage="move-jobs")
    river.xid("gpu-0")
    river.run()
    river.kube.reboot("gpu-0", "boot-repaired")
    with river.store.write() as connection:
        commands.ask(connection, Command("c", "return", "gpu-0", "ann", river.clock.now()))
    river.run()
    text = World(tmp_path).run("show", river.all_incidents()[0].id).stdout
    assert "ann asked to return gpu-0" in text
    assert "asked at 2027-01-15T" in text
    assert "fault to decision" not in text
    assert "w-gpu-0 takes jobs" in text


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


def test_what_is_tried_in_vain_over_and_over_is_told_once(tmp_path: Path) -> None:
    """Each real attempt has its two records; a night before a budget fills neither screen nor store."""
    river = River(tmp_path)
    river.kube.add_pod("ml", "kept", "gpu-0")
    river.kube.protect_pod("ml", "kept", "its-pdb")
    river.xid("gpu-0")
    river.run(480.0)
    (incident,) = river.all_incidents()
    with river.store.read() as connection:
        tries = [r for r in chain.read(connection, incident.id) if r["step"] == "evict-pods"]
    river.store.close()
    intents = [one for one in tries if one["action"] == "intent"]
    assert 12 <= len(intents) <= 18
    told = World(tmp_path).run("show", incident.id).stdout
    assert told.count("cordon gpu-0 and evict its pods") == 1
    assert "its-pdb" in told


def test_a_step_of_several_stages_is_told_once(treated: tuple[World, River, int]) -> None:
    world, river, _ = treated
    (incident,) = river.all_incidents()
    told = world.run("show", incident.id).stdout
    assert told.count("test the spare of incident") == 1
    assert "acceptance test on spare-0 is started" in told
