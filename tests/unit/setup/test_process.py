from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from deploy.setup import process
from deploy.setup.errors import SetupError, SilentRegistryError

GO = "the Go module proxy"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path))


def sh(script: str, *, registry: str | None = None, deadline: float = 20) -> None:
    process.run("thing", ["sh", "-c", script], deadline=deadline, registry=registry)


def test_output_of_both_streams_goes_to_the_part_s_log(tmp_path: Path) -> None:
    sh("echo one; echo two >&2")
    assert (tmp_path / "logs/thing.log").read_text().splitlines()[1:] == ["one", "two"]


def test_a_failed_command_is_named_with_its_telling_line_and_its_log(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as caught:
        sh("echo 'OSError: no such thing'; echo 'hint: see above'; exit 3")
    assert str(caught.value) == f"thing: sh failed: OSError: no such thing; see {tmp_path}/logs/thing.log"


@pytest.mark.parametrize(
    "line",
    [
        'dial tcp: lookup proxy.example.org on 10.0.0.1:53: no such host',
        "Get https://proxy.example.org/mod/@v/list: dial tcp 10.1.2.3:443: i/o timeout",
        "Temporary failure resolving 'deb.example.org'",
    ],
)  # fmt: skip
def test_a_silent_registry_is_named_by_its_kind_and_never_by_its_address(line: str) -> None:
    with pytest.raises(SilentRegistryError) as caught:
        sh(f'echo "{line}"; exit 1', registry=GO)
    text = str(caught.value)
    assert text.startswith("the Go module proxy does not answer: ")
    assert "example" not in text
    assert "10." not in text


def test_a_registry_that_answers_with_something_else_is_not_called_silent() -> None:
    with pytest.raises(SetupError, match="thing: sh failed: error: hashes do not match"):
        sh("echo 'error: hashes do not match'; exit 1", registry=GO)


def test_a_command_over_its_deadline_is_ended_and_said() -> None:
    started = time.monotonic()
    with pytest.raises(SetupError, match="was not done after 0 s"):
        sh("exec sleep 60", deadline=0.3)
    assert time.monotonic() - started < 30


def test_one_failure_ends_the_other_commands_and_refuses_new_ones(tmp_path: Path) -> None:
    failures: list[str] = []

    def long() -> None:
        try:
            sh("echo $$ > " + str(tmp_path / "pid") + "; exec sleep 60")
        except SetupError as error:
            failures.append(str(error))

    thread = threading.Thread(target=long)
    thread.start()
    while not (tmp_path / "pid").exists():
        time.sleep(0.01)
    process.stop_all()
    try:
        thread.join(timeout=30)
        with pytest.raises(SetupError):
            sh("exec sleep 60")
    finally:
        process.allow_all()
    assert len(failures) == 1
    sh("true")


def test_a_killed_setup_takes_its_commands_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = os.fork()
    if child == 0:
        sh(f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60")
        os._exit(0)
    while not pid_file.exists():
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    command = Path("/proc", pid_file.read_text().strip(), "cmdline")
    until = time.monotonic() + 20
    while command.exists() and b"sleep" in command.read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    assert not command.exists() or b"sleep" not in command.read_bytes()
