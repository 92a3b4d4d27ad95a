"""`remediator node`: what is remembered of a machine, by its key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from remediator.cli.main import app
from remediator.clock import SystemClock
from remediator.model.strike import Strike
from remediator.store import strikes
from tests.fakes.river import River

SETTINGS = """
cluster: {name: test}
slurm: {url: "http://127.0.0.1:6820"}
pools: {training: {node_selector: {pool: training}}}
store: {url: "sqlite:///%s/river.db"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gpu-0 was replaced; a job crashed on gpu-1 and on the machine that bore its name before."""
    folder = tmp_path_factory.mktemp("node")
    river = River(folder)
    river.clock.jump(SystemClock().now() - river.clock.now())
    river.xid("gpu-0")
    river.run()
    at = river.clock.now()
    with river.store.write() as connection:
        for number, machine in enumerate((river.kube.view("gpu-1").provider_id, "aws:///i-old")):
            struck = Strike(f"{number}.1", str(number), f"w{number}", machine, "gpu-1", at - number, "d")
            strikes.add(connection, [struck])
    river.store.close()
    (folder / "settings.yaml").write_text(SETTINGS % folder)
    return folder


def run(folder: Path, *arguments: str) -> Result:
    command = ["node", *arguments, "--settings", str(folder / "settings.yaml")]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200"})


def test_it_shows_incidents_strikes_and_what_they_count(folder: Path) -> None:
    done = run(folder, "gpu-0")
    assert done.exit_code == 0, done.output
    assert "gpu-off-the-bus" in done.output
    assert "remediations within 7 days: 1 of 5" in done.output


def test_each_machine_that_bore_the_name_stands_for_itself(folder: Path) -> None:
    found = json.loads(run(folder, "gpu-1", "--json").stdout)
    assert [len(one["strikes"]) for one in found] == [1, 1]
    assert found[1]["machine"] == "aws:///i-old"
    assert "strike: job 0 crashed on it at 20" in run(folder, "gpu-1").output


def test_of_a_node_without_a_past_it_says_so(folder: Path) -> None:
    done = run(folder, "gpu-9")
    assert done.exit_code == 2
    assert "nothing is remembered of 'gpu-9'" in done.output
