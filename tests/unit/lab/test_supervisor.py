"""The first process's own program, run as an ordinary process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.control import Control, Part, wait_until
from deploy.lab.errors import LabError

PROGRAM = """
import sys
from pathlib import Path
from deploy.lab.supervisor import Supervisor
Supervisor(Path(sys.argv[1])).run()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "s")])
    yield process
    for part in Control(tmp_path / "s", "it").parts().values():
        if part["running"]:
            Control(tmp_path / "s", "it").signal(_name_of(tmp_path, part["pid"]), signal.SIGKILL)
    process.kill()
    process.wait()


def _name_of(folder: Path, pid: int) -> str:
    parts = Control(folder / "s", "it").parts()
    return next(name for name, part in parts.items() if part["pid"] == pid)


@pytest.fixture
def control(server: subprocess.Popen[bytes], tmp_path: Path) -> Control:
    control = Control(tmp_path / "s", "it")
    wait_until(lambda: control.first_pid() is not None, 20, "the supervisor does not listen")
    return control


def part(tmp_path: Path, *argv: str, revive: bool = False) -> Part:
    return Part("p", argv, str(tmp_path / "p.log"), {"GREETING": "hello"}, revive)


def test_its_process_id_is_known_without_asking(control: Control, server: subprocess.Popen[bytes]) -> None:
    assert control.first_pid() == server.pid


def test_its_process_id_is_known_while_it_is_stopped(
    control: Control, server: subprocess.Popen[bytes]
) -> None:
    server.send_signal(signal.SIGSTOP)
    try:
        assert control.first_pid() == server.pid
    finally:
        server.send_signal(signal.SIGCONT)


def test_a_part_runs_with_its_environment_and_log_and_its_exit_code_is_kept(
    control: Control, tmp_path: Path
) -> None:
    control.start(part(tmp_path, "sh", "-c", "echo $GREETING; exit 3"))
    wait_until(lambda: not control.running("p"), 10, "it does not end")
    assert control.parts()["p"]["exit_code"] == 3
    assert (tmp_path / "p.log").read_text() == "hello\n"


def test_a_killed_part_stays_dead_until_it_is_started_again(control: Control, tmp_path: Path) -> None:
    control.start(part(tmp_path, "sleep", "1000"))
    control.stop("p", signal.SIGKILL)
    assert control.parts()["p"]["exit_code"] == -signal.SIGKILL
    control.again("p")
    assert control.running("p")
    assert control.parts()["p"]["starts"] == 2


def test_a_part_to_be_revived_comes_back(control: Control, tmp_path: Path) -> None:
    control.start(part(tmp_path, "sleep", "1000", revive=True))
    control.signal("p", signal.SIGKILL)
    wait_until(lambda: control.parts()["p"]["starts"] == 2, 10, "it does not come back")


def test_a_running_part_is_not_started_twice(control: Control, tmp_path: Path) -> None:
    control.start(part(tmp_path, "sleep", "1000"))
    with pytest.raises(LabError, match="runs already"):
        control.start(part(tmp_path, "sleep", "1000"))


def test_bad_requests_are_answered_and_do_not_end_it(control: Control, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no-such-program"):
        control.start(part(tmp_path, "no-such-program"))
    with pytest.raises(LabError, match="nobody"):
        control.signal("nobody", signal.SIGTERM)
    assert control.parts() == {}


def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    control = Control(tmp_path / "s", "lab x")
    assert control.first_pid() is None
    with pytest.raises(LabError, match="lab x does not answer"):
        control.parts()


def test_a_socket_path_longer_than_the_kernel_takes_works(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder / "s")])
    try:
        control = Control(folder / "s", "it")
        wait_until(lambda: control.first_pid() == process.pid, 20, "the supervisor does not listen")
    finally:
        process.kill()
        process.wait()
