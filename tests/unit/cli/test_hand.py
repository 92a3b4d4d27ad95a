"""pause, resume, hold, release on the command line, answered by a core that runs meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from remediator.cli import hand
from remediator.cli.main import app
from tests.fakes.river import River
from tests.unit.cli.test_incidents import World


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def tell(river: River, *arguments: str) -> Result:
    """Run the command in a thread while the core takes its turns."""
    world, done = World(river.folder), list[Result]()
    command = [*arguments, "--settings", str(world.settings)]

    def run() -> None:
        done.append(CliRunner().invoke(app, command, env={"REMEDIATOR_ACTOR": "ann"}))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        river.turn()
        thread.join(0.02)
    return done[0]


def test_pause_and_resume_answer_in_a_sentence(river: River) -> None:
    paused = tell(river, "pause")
    assert paused.exit_code == 0
    assert "nothing is written" in paused.stdout
    assert "paused by ann" in tell(river, "resume").stdout


def test_hold_and_release_name_the_incident(river: River) -> None:
    river.submit_job()
    river.xid("gpu-0")
    river.turn()
    incident = river.open_incidents()[0].id
    assert incident in tell(river, "hold", incident).stdout
    assert "goes on" in tell(river, "release", incident).stdout


def test_return_says_where_to_follow_it_and_refuses_with_status_1(river: River) -> None:
    refused = tell(river, "return", "gpu-0")
    assert (refused.exit_code, "nothing to return" in refused.stdout) == (1, True)
    river.xid("gpu-0")
    river.run()
    assert "--even-so" in tell(river, "return", "gpu-0").stdout
    begun = tell(river, "return", "gpu-0", "--even-so")
    (returning,) = [incident for incident in river.all_incidents() if incident.plan == "give-back"]
    assert begun.exit_code == 0
    assert f"remediator incidents show {returning.id}" in begun.stdout


def test_a_refusal_exits_with_1_and_says_why(river: River) -> None:
    refused = tell(river, "hold", "nobody")
    assert refused.exit_code == 1
    assert "no incident 'nobody'" in refused.stdout


def test_without_a_controller_it_says_that_nobody_answered(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand, "ANSWER_S", 0.2)
    settings = str(World(river.folder).settings)
    done = CliRunner().invoke(app, ["pause", "--settings", settings])
    assert done.exit_code == 2
    assert "no controller answered" in done.stderr


@pytest.mark.parametrize("words", [("pause",), ("resume",), ("hold", "x"), ("release", "x"), ("return", "n")])
def test_a_wrong_path_makes_no_new_store(tmp_path: Path, words: tuple[str, ...]) -> None:
    world = World(tmp_path)
    done = CliRunner().invoke(app, [*words, "--settings", str(world.settings)])
    assert (done.exit_code, done.stderr.startswith("error: store.url: no readable store")) == (2, True)
    assert not list(tmp_path.glob("*.db"))
