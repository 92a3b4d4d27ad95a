"""`remediator policy backtest` and `policy plan --since`: two policies side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from remediator.cli.backtest import span_s
from remediator.cli.main import app
from remediator.clock import SystemClock
from remediator.errors import BadInput
from tests.fakes.river import River
from tests.unit.cli.test_incidents import World
from tests.unit.run.test_rehearsal import JOB, NODES, T0, line


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    told = [*NODES, JOB, line(T0 + 3600), line(T0 + 7200, on=3)]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, told)))
    return tmp_path / "trace.jsonl"


def run(world: World, *arguments: str) -> Result:
    command = ["policy", *arguments, "--settings", str(world.settings)]
    return CliRunner().invoke(app, command, env={"COLUMNS": "200"})


def harmless(folder: Path) -> str:
    """An overlay that only records a GPU off the bus."""
    changed = folder / "overlay.yaml"
    changed.write_text("version: 1\nrules: {gpu-off-the-bus: {plan: record}}\n")
    return str(changed)


def touched(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_same_policy_would_do_the_same(world: World, trace: Path) -> None:
    done = run(world, "backtest", str(trace))
    assert done.exit_code == 0, done.output
    assert "both would do the same" in done.stdout
    assert "nothing was changed" in done.stdout


def test_a_changed_policy_is_shown_beside_the_present_one(world: World, trace: Path, tmp_path: Path) -> None:
    overlay = harmless(tmp_path)
    found = touched(run(world, "backtest", str(trace), "--overlay", overlay, "--json"))
    assert (found["present"]["nodes"], found["changed"]["nodes"]) == (["gpu-1", "gpu-3"], [])
    assert (found["present"]["jobs"], found["present"]["gpu_hours"]) == ([7], 16.0)
    done = run(world, "backtest", str(trace), "--overlay", overlay)
    (row,) = [text for text in done.stdout.splitlines() if "gpu-1" in text]
    assert "replace (1 job, 16.0 GPU-hours)" in row
    assert "nothing" in row


def test_the_stores_own_signals_are_judged_again(tmp_path: Path) -> None:
    river = River(tmp_path)
    world = World(tmp_path)
    river.clock.jump(SystemClock().now() - 3600 - river.clock.now())
    river.turn()  # the clock was set: what is under way moves along
    river.xid("gpu-0")
    river.run()
    river.store.close()
    found = touched(run(world, "plan", "--since", "2h", "--overlay", harmless(tmp_path), "--json"))
    assert (found["present"]["nodes"], found["changed"]["nodes"]) == (["gpu-0"], [])
    assert touched(run(world, "plan", "--since", "30m", "--json"))["rows"] == 0


def test_a_file_that_is_no_trace_is_one_line_with_its_place(world: World, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"at": 1, "type": "node", "node": "gpu-1"}\n{"type": "node"}\n')
    for file, said in ((bad, "line 2"), (tmp_path / "none", "cannot be read")):
        done = run(world, "backtest", str(file))
        assert done.exit_code == 2
        assert said in done.output


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400.0), ("12h", 43_200.0), ("7d", 604_800.0)])
def test_a_span_is_a_number_and_its_unit(text: str, seconds: float) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "7 d", "1w", "99999999d"])
def test_another_span_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        span_s(text)
