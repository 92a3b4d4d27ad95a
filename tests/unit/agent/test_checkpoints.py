"""What counts as a complete checkpoint, on a real file system: the kinds of FC-O26 and their neighbours."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from remediator.agent import checkpoint_walk
from remediator.agent.checkpoint_clock import CheckpointClock
from remediator.agent.checkpoint_files import TEMPORARY, Seen, points_at, state, summary
from remediator.agent.checkpoint_glob import parse
from remediator.agent.collector import Looking
from remediator.agent.loop import Agent
from remediator.agent.push import HttpPusher
from remediator.agent.settings import AgentSettings
from remediator.clock import ManualClock
from remediator.errors import BadInput
from remediator.model.checkpoint import CheckpointLook, Checkpoints
from tests.unit.agent.helpers import BOOT, Controller, Node

SHARDS = tuple(f"model-{at:05d}-of-00128.safetensors" for at in range(1, 129))


class Lines:
    """A log that keeps what was said."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append({"event": event} | fields)

    warning = info


class Disk:
    """A shared file system, an agent's clock that looks at it, and time that the test makes pass."""

    def __init__(self, root: Path, glob: str = "{job}/step_*", marker: str = "") -> None:
        self.root = root / "shared"
        self.root.mkdir()
        self.time, self.log = ManualClock(), Lines()
        config = AgentSettings.model_validate(
            {"node": "login-0", "controller_url": "http://127.0.0.1:1", "checkpoint_marker": marker,
             "checkpoint_globs": f"{self.root}/{glob}"}
        )  # fmt: skip
        self.reader = CheckpointClock(config, self.time, self.log)

    def write(self, path: str, size: int = 100, ago: float = 0.0) -> Path:
        """A file of this size, last written so long ago."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        at = self.time.now() - ago
        os.utime(file, (at, at))
        return file

    def step(
        self, step: int, ago: float, names: tuple[str, ...] = ("model.pt", "optim.pt"), size: int = 100
    ) -> None:
        """A checkpoint of job 7."""
        for name in names:
            self.write(f"7/step_{step}/{name}", size, ago)
        at = self.time.now() - ago
        os.utime(self.root / f"7/step_{step}", (at, at))

    def look(self, times: int = 2) -> CheckpointLook:
        """The last of so many looks, 15 s apart."""
        for _ in range(times):
            self.reader.look(self.time.now(), self.time.steady())
            self.time.advance(15.0)
        (look,) = self.reader.take()
        return CheckpointLook.model_validate_json(look.model_dump_json())

    def seen(self, times: int = 2) -> Checkpoints:
        """What is said of the one job there is."""
        (found,) = self.look(times).found
        return found


@pytest.mark.parametrize("marker", ["", ".complete", "../latest"])
def test_the_newest_complete_one_is_reported_and_the_newer_are_partial(tmp_path: Path, marker: str) -> None:
    """FC-O26: the service changes nothing there, and believes no link."""
    disk = Disk(tmp_path, marker=marker)
    disk.step(1000, 600, (*SHARDS, "optimizer.pt"))
    disk.write("7/step_1000/.complete", 0, 600)
    disk.step(1050, 400, SHARDS[:95])
    disk.step(1100, 200, ("model.pt",), size=0)
    (disk.root / "7/latest").symlink_to("step_1100")
    before = sorted(str(path) for path in disk.root.rglob("*"))
    found = disk.seen()
    assert (found.newest, set(found.partial)) == ("step_1000", {"step_1050", "step_1100"})
    assert found.ages == pytest.approx([630.0], abs=1)
    assert sorted(str(path) for path in disk.root.rglob("*")) == before


def test_when_only_an_unfinished_one_is_there_none_is_complete(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.step(1100, 200, ("model.pt",), size=0)
    assert disk.seen() == Checkpoints(key=disk.seen().key, partial=("step_1100",))


KINDS: dict[str, tuple[str, ...]] = {
    "flat": ("model.pt", "optim.pt", "rng.pt"),
    "sharded": SHARDS[:4],
    "ranks": ("mp_rank_00/model.pt", "mp_rank_01/model.pt"),
}


@settings(max_examples=150, deadline=None)
@given(data=st.data(), names=st.sampled_from(sorted(KINDS)), size=st.integers(100, 10_000))
def test_what_a_killed_writer_leaves_never_counts(data: st.DataObject, names: str, size: int) -> None:
    """Any file missing, cut short by a tenth or more, or under a temporary name; stable for ever."""
    whole = [Seen(name, size, 1000.0 + at) for at, name in enumerate(KINDS[names])]
    like = summary("step_1", whole)
    assert state(like, like, None) == ("complete" if names != "sharded" else "partial")
    broken = [Seen(one.name, one.size, one.written + 500) for one in whole]
    at = data.draw(st.integers(0, len(broken) - 1))
    harm = data.draw(st.sampled_from(["missing", "short", "temporary"]))
    if harm == "missing":
        del broken[at]
    elif harm == "short":
        broken[at] = Seen(
            broken[at].name, int(size * (1 - 0.11 * len(broken))) if len(broken) < 9 else 0, 2000.0
        )
    else:
        suffix = data.draw(st.sampled_from([".tmp", ".part", ".incomplete", ".tmp.123", "-tmp-17", "~"]))
        broken[at] = Seen(broken[at].name + suffix, size, 2000.0)
    files = summary("step_2", broken)
    assert state(files, files, like) == "partial"
    assert state(files, None, like) == "writing"


def test_one_that_still_grows_is_complete_only_once_it_rests(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.step(1, 300)
    assert disk.seen().newest == "step_1"
    for share in (20, 60, 100):
        disk.step(2, 0, size=share)
        found = disk.seen(1)
        assert (found.newest, found.writing, found.partial) == ("step_1", True, ())
    found = disk.seen(1)
    assert (found.newest, found.writing) == ("step_2", False)
    assert found.save_s is not None
    assert found.save_s >= 30.0


def test_a_marker_written_last_counts_at_once_and_one_that_is_older_does_not(tmp_path: Path) -> None:
    disk = Disk(tmp_path, marker="metadata.json")
    disk.step(1, 10)
    disk.write("7/step_1/metadata.json", 5, 9)
    assert disk.seen(1).newest == "step_1"
    disk.step(1, 0)  # the same folder is written again, its marker is of the first time
    assert disk.seen(1).newest == ""


def test_what_was_complete_and_is_broken_counts_no_more(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.step(1, 900)
    disk.step(2, 300)
    assert disk.seen().newest == "step_2"
    disk.write("7/step_2/model.pt", 0)
    found = disk.seen()
    assert (found.newest, found.partial, len(found.ages)) == ("step_1", ("step_2",), 1)


def test_cadence_is_known_over_what_the_job_has_removed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    for step in range(1, 5):
        disk.step(step, 0)
        disk.time.advance(270.0)
        disk.look(2)
        shutil.rmtree(disk.root / f"7/step_{step - 1}", ignore_errors=True)
    found = disk.seen(1)
    assert found.cadence_s == 300.0
    assert len(found.ages) == 4


def test_files_of_the_future_say_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.step(1, -3600)
    assert disk.look().found == ()


def test_placeholders_name_the_job_and_a_file_may_be_a_checkpoint(tmp_path: Path) -> None:
    disk = Disk(tmp_path, glob="{user}/{jobname}-{job}/ckpt_*.pt")
    for path in (
        "alice/llama-7b-12/ckpt_1.pt",
        "bob/x-9_3/ckpt_5.pt",
        "bob/none/ckpt_1.pt",
        "bob/x-1/other.pt",
    ):
        disk.write(path, ago=60)
    keys = {str(found.key) for found in disk.look().found}
    assert keys == {"job=12 user=alice jobname=llama-7b", "job=9_3 user=bob jobname=x"}


def test_nothing_outside_is_looked_at(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    outside = tmp_path / "outside" / "step_9"
    outside.mkdir(parents=True)
    (outside / "model.pt").write_text("x")
    (disk.root / "7").mkdir()
    (disk.root / "7/step_9").symlink_to(outside)
    (disk.root / "8").symlink_to(outside.parent)
    (disk.root / "7/step_8").mkdir()
    (disk.root / "7/step_8/model.pt").symlink_to(outside / "model.pt")
    os.mkfifo(disk.root / "7/step_10")
    os.mkfifo(disk.root / "7/step_8/pipe")
    found = disk.seen()
    assert (found.newest, found.partial) == ("", ("step_8",))


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_S"])
def test_a_look_that_would_take_too_long_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    disk = Disk(tmp_path)
    disk.step(1, 60)
    defaults = checkpoint_walk.Budget.__init__.__defaults__
    tight = (1, defaults[1]) if limit == "MOST_ENTRIES" else (defaults[0], -1.0)  # type: ignore[index]
    monkeypatch.setattr(checkpoint_walk.Budget.__init__, "__defaults__", tight)
    look = disk.look()
    assert (look.found, look.problem[:7]) == ((), "too muc")
    assert len(disk.log.said) == 1


def test_a_folder_that_is_not_there_is_a_problem_until_it_is(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.root.rmdir()
    assert "No such file" in disk.look().problem
    disk.step(1, 60)
    assert disk.look().problem == ""


@pytest.mark.parametrize(
    "text", ["relative/*", "/*", "/plain/folder", "/a/../b/*", "/a/**/b", "/a/{node}/*", "/a/{job}-{job}/*"]
)
def test_a_glob_that_says_too_much_or_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="checkpoint_globs"):
        parse(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab*?[]!{}-\\^.", min_size=1, max_size=12), st.text(max_size=12))
def test_no_pattern_and_no_name_is_too_odd(pattern: str, name: str) -> None:
    try:
        glob = parse(f"/a/{pattern}")
    except BadInput:
        return
    glob.parts[0].fullmatch(name)


@pytest.mark.parametrize(
    ("text", "name", "meant"),
    [
        ("step_1000\n", "step_1000", True),
        ("1000", "iter_0001000", True),
        ("/ckpt/step_1000", "step_1000", True),
        ("release", "iter_0001000", False),
        ("100", "step_1000", False),
        ("", "step_1", False),
    ],
)
def test_a_pointer_names_a_checkpoint_or_its_number(text: str, name: str, *, meant: bool) -> None:
    assert points_at(text, name) is meant


@pytest.mark.parametrize(
    "name", ["model.safetensors", "template.json", "temperature.pt", "part-00001", "stmp.pt"]
)
def test_an_ordinary_name_is_not_temporary(name: str) -> None:
    assert TEMPORARY.search(name) is None


def test_the_agent_pushes_what_it_sees_and_goes_on_when_that_is_refused(tmp_path: Path) -> None:
    disk, node = Disk(tmp_path), Node(tmp_path)
    disk.step(1, 60)
    refuse = [True]
    controller = Controller(lambda push: 400 if refuse[0] and "checkpoints" in push else 202)
    settings = node.settings(controller.url)
    agent = Agent(settings, HttpPusher(settings), disk.time, disk.log, checkpoints=disk.reader)
    try:
        disk.reader.look(disk.time.now(), disk.time.steady())
        for _ in range(3):
            agent.turn()
            disk.time.advance(11.0)
        assert controller.pushes
        assert not any("checkpoints" in push for push in controller.pushes)
        refuse.clear()
        refuse.append(False)
        disk.reader.look(disk.time.now(), disk.time.steady())
        agent.turn()
        (look,) = controller.pushes[-1]["checkpoints"]
        assert (look["found"][0]["newest"], controller.pushes[-1]["boot_id"]) == ("step_1", BOOT)
        page = generate_latest(agent.metrics.registry).decode()
        assert 'remediator_checkpoint_age_seconds{job="7",jobname="",user=""}' in page
        assert 'remediator_checkpoint_partial{job="7",jobname="",user=""} 0.0' in page
    finally:
        agent.close()
        controller.close()


def test_a_file_system_that_hangs_stops_no_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    disk.step(1, 60)
    disk.look()
    hangs, entered = threading.Event(), threading.Event()

    def walk(*_: Any) -> dict[Any, Any]:
        entered.set()
        hangs.wait(30)
        return {}

    monkeypatch.setattr("remediator.agent.checkpoint_clock.walk", walk)
    looking = Looking(disk.reader, lambda _: None, disk.time, disk.log)
    looking.start()
    assert entered.wait(10)
    disk.time.advance(200.0)
    disk.reader.again()
    (look,) = disk.reader.take()
    assert (look.found, look.problem) == ((), "the file system does not answer")
    looking.stop()
    hangs.set()
