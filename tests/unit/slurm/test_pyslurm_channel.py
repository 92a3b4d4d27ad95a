"""The pyslurm worker's process: whatever it does, a call ends in time and with the right error."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remediator.clock import SystemClock
from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry
from slurm_bridge.pyslurm.channel import Channel
from tests.servers.slurm import wait_for

FAKE = Path(__file__).parents[2] / "fakes/pyslurm_worker.py"
SOON, LONG = 1.0, 30.0


def channel_to(path: Path) -> Channel:
    return Channel(path, lambda: "secret-jwt", SystemClock())


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path: a socket's may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="worker-") as found:
        yield Path(found)


@contextlib.contextmanager
def listening(path: Path) -> Iterator[int]:
    """The process id of a worker that listens there."""
    with subprocess.Popen([sys.executable, str(FAKE), str(path)], stdin=subprocess.DEVNULL) as process:
        try:
            wait_for("the worker", path.exists)
            yield process.pid
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def listener(folder: Path) -> Iterator[tuple[Path, int]]:
    with listening(folder / "w") as pid:
        yield folder / "w", pid


@pytest.fixture
def channel(listener: tuple[Path, int]) -> Iterator[Channel]:
    found = channel_to(listener[0])
    yield found
    found.close()


def pid_of(channel: Channel) -> int:
    return int(channel.call("pid", {}, "ask its pid", deadline=LONG, write=False))


def assert_ends(pid: int) -> None:
    wait_for(f"the end of {pid}", lambda: not Path(f"/proc/{pid}").exists())


def test_one_worker_serves_call_after_call(channel: Channel) -> None:
    assert pid_of(channel) == pid_of(channel)
    text = "é\n\u2028" * 100_000
    assert channel.call("echo", {"text": text}, "echo", deadline=LONG, write=False) == text


def test_every_call_brings_the_token_of_the_moment(listener: tuple[Path, int]) -> None:
    tokens = iter(["first", "second"])
    channel = Channel(listener[0], lambda: next(tokens), SystemClock())
    seen = [channel.call("token", {}, "token", deadline=LONG, write=False) for _ in range(2)]
    channel.close()
    assert seen == ["first", "second"]


def test_what_libslurm_prints_is_not_taken_for_an_answer(channel: Channel) -> None:
    assert channel.call("chatter", {}, "chatter", deadline=LONG, write=False) == pid_of(channel)


@pytest.mark.parametrize(("write", "error"), [(True, Ambiguous), (False, Retry)])
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("hang", {}),
        ("hang_deaf", {}),
        ("sleep", {"seconds": 600}),
        ("die", {}),
        ("say", {"text": "garbage\n"}),
        ("say", {"text": '{"id": 1, "result"\n'}),
        ("say", {"text": '{"id": 77, "result": 1}\n'}),
        ("say", {"text": '{"id": 2}\n'}),
        ("say", {"text": '{"id": 2, "result": 1, "error": {}}\n'}),
        ("say", {"text": "[]\n"}),
        ("say", {"text": '"half a line'}),
    ],
)
def test_a_worker_that_goes_wrong_is_ended_and_the_next_call_gets_another(
    channel: Channel, operation: str, arguments: dict[str, object], write: bool, error: type[RemediatorError]
) -> None:
    """After a write nobody knows what happened; a read surely did nothing."""
    before = pid_of(channel)
    with pytest.raises(error, match=r"drain gpu-0: .*worker"):
        channel.call(operation, arguments, "drain gpu-0", deadline=SOON, write=write)
    assert_ends(before)
    assert pid_of(channel) != before


def test_a_late_answer_is_never_given_to_the_next_call(channel: Channel) -> None:
    with pytest.raises(Retry):
        channel.call("sleep", {"seconds": SOON + 0.2}, "read", deadline=SOON, write=False)
    assert channel.call("echo", {"text": "mine"}, "read", deadline=LONG, write=False) == "mine"


def test_a_worker_ends_with_the_service_that_asked_it(listener: tuple[Path, int]) -> None:
    """Nothing lands after a call's deadline, even when nobody is left to give up."""
    service = (
        "from pathlib import Path; from remediator.clock import SystemClock; "
        "from slurm_bridge.pyslurm.channel import Channel; "
        f"c = Channel(Path({str(listener[0])!r}), lambda: 'x', SystemClock()); "
        "print(c.call('pid', {}, 'pid', deadline=30, write=False), flush=True); "
        "c.call('hang', {}, 'hang', deadline=600, write=True)"
    )
    with subprocess.Popen([sys.executable, "-c", service], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    assert_ends(pid)


def test_a_hanging_worker_ends_itself_when_nobody_kills_it(
    channel: Channel, listener: tuple[Path, int]
) -> None:
    hanging = pid_of(channel)
    os.kill(listener[1], signal.SIGSTOP)
    try:
        with pytest.raises(Ambiguous):
            channel.call("hang", {}, "drain gpu-0", deadline=SOON, write=True)
        wait_for("its own alarm", lambda: _is_zombie(hanging))
    finally:
        os.kill(listener[1], signal.SIGCONT)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_worker_found_dead_is_replaced_before_anything_is_asked(channel: Channel) -> None:
    before = pid_of(channel)
    os.kill(before, signal.SIGKILL)
    assert_ends(before)
    assert pid_of(channel) != before


def test_a_worker_that_was_started_again_is_found_at_its_old_place(folder: Path) -> None:
    channel = channel_to(folder / "again")
    seen: set[int] = set()

    def answers() -> bool:
        with contextlib.suppress(Retry):
            seen.add(pid_of(channel))
            return True
        return False

    for _ in range(2):
        with listening(folder / "again"):
            wait_for("an answer", answers)
    channel.close()
    assert len(seen) == 2


def test_several_callers_have_a_worker_each(listener: tuple[Path, int]) -> None:
    """The controller, and a person's `remediator plan` beside it: one that hangs stops no other."""
    one, other = channel_to(listener[0]), channel_to(listener[0])
    assert pid_of(one) != pid_of(other)
    with pytest.raises(Retry):
        one.call("hang", {}, "list jobs", deadline=0.2, write=False)
    assert pid_of(other) == pid_of(other)
    one.close()
    other.close()


def test_a_call_that_waits_for_another_too_long_had_no_effect(channel: Channel) -> None:
    with channel._busy, pytest.raises(Retry, match="busy"):
        channel.call("pid", {}, "drain gpu-0", deadline=0.1, write=True)


@contextlib.contextmanager
def saying(path: Path, text: bytes | None) -> Iterator[None]:
    """Something else listens there: it says this and hangs up, or with None never says anything."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()

        def serve() -> None:
            connection, _ = door.accept()
            with connection:
                connection.sendall(text or b"")
                if text is None:
                    connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    ("text", "deadline", "error"),
    [(b"", LONG, Retry), (b"hello\n", LONG, Retry), (None, SOON, Retry), (b'{"ready": 0}\n', LONG, GiveUp)],
)
def test_a_write_to_a_worker_that_does_not_start_surely_had_no_effect(
    folder: Path, text: bytes | None, deadline: float, error: type[RemediatorError]
) -> None:
    path = folder / f"door-{text!r:.9}"
    channel = channel_to(path)
    with saying(path, text), pytest.raises(error):
        channel.call("pid", {}, "drain gpu-0", deadline=deadline, write=True)


def test_nobody_at_the_socket_is_told_by_its_path(folder: Path) -> None:
    with pytest.raises(Retry, match=rf"drain gpu-0: no pyslurm worker answers at {folder}/nobody: "):
        channel_to(folder / "nobody").call("pid", {}, "drain gpu-0", deadline=LONG, write=True)


@pytest.mark.parametrize(
    ("errno", "error"),
    [
        (2017, BadInput),
        (2018, BadInput),
        (2037, Blocked),
        (2002, GiveUp),
        (1007, GiveUp),
        (1800, Retry),
        (9999, Ambiguous),
    ],
)
def test_slurms_errno_says_what_to_do_and_the_token_stays_secret(
    channel: Channel, errno: int, error: type[RemediatorError]
) -> None:
    before = pid_of(channel)
    with pytest.raises(error) as caught:
        channel.call("fail", {"errno": errno}, "requeue 12", deadline=LONG, write=True)
    assert "secret-jwt" not in str(caught.value)
    assert pid_of(channel) == before


def test_an_unknown_errno_of_a_read_is_retry(channel: Channel) -> None:
    with pytest.raises(Retry, match="Slurm error 9999"):
        channel.call("fail", {"errno": 9999}, "list jobs", deadline=LONG, write=False)


def test_an_operation_the_worker_does_not_know_is_an_error_and_not_its_end(channel: Channel) -> None:
    before = pid_of(channel)
    with pytest.raises(Retry, match="KeyError"):
        channel.call("nope", {}, "read", deadline=LONG, write=False)
    assert pid_of(channel) == before
