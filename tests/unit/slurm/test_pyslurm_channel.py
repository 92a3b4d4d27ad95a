"""The pyslurm worker's process: whatever it does, a call ends in time and with the right error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remediator.clock import SystemClock
from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry
from slurm_bridge.pyslurm.channel import Channel
from tests.servers.slurm import wait_for

FAKE = Path(__file__).parents[2] / "fakes/pyslurm_worker.py"
SOON, LONG = 1.0, 30.0


def channel_to(*command: str) -> Channel:
    return Channel(command, lambda: "secret-jwt", SystemClock(), {})


@pytest.fixture
def channel() -> Iterator[Channel]:
    found = channel_to(sys.executable, str(FAKE))
    yield found
    found.close()


def pid_of(channel: Channel) -> int:
    return int(channel.call("pid", {}, "ask its pid", deadline=LONG, write=False))


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_one_worker_serves_call_after_call(channel: Channel) -> None:
    assert pid_of(channel) == pid_of(channel)
    text = "é\n\u2028" * 100_000
    assert channel.call("echo", {"text": text}, "echo", deadline=LONG, write=False) == text


def test_every_call_brings_the_token_of_the_moment() -> None:
    tokens = iter(["first", "second"])
    channel = Channel([sys.executable, str(FAKE)], lambda: next(tokens), SystemClock(), {})
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
    assert is_gone(before)
    assert pid_of(channel) != before


def test_a_late_answer_is_never_given_to_the_next_call(channel: Channel) -> None:
    with pytest.raises(Retry):
        channel.call("sleep", {"seconds": SOON + 0.2}, "read", deadline=SOON, write=False)
    assert channel.call("echo", {"text": "mine"}, "read", deadline=LONG, write=False) == "mine"


def test_a_hanging_worker_ends_by_itself_when_the_service_is_gone() -> None:
    """Nothing lands after a call's deadline, even when nobody is left to kill the worker."""
    service = (
        "import os, sys; from remediator.clock import SystemClock; "
        "from slurm_bridge.pyslurm.channel import Channel; "
        f"c = Channel([sys.executable, {str(FAKE)!r}], lambda: 'x', SystemClock(), {{}}); "
        "print(c.call('pid', {}, 'pid', deadline=30, write=False), flush=True); "
        "c.call('hang', {}, 'hang', deadline=3, write=True)"
    )
    with subprocess.Popen([sys.executable, "-c", service], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        time.sleep(0.3)
        process.kill()
    wait_for("the worker's end", lambda: is_gone(pid) or _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_worker_found_dead_is_replaced_before_anything_is_asked(channel: Channel) -> None:
    before = pid_of(channel)
    os.kill(before, signal.SIGKILL)
    wait_for("its end", lambda: _is_zombie(before))
    assert pid_of(channel) != before


def test_a_call_that_waits_for_another_too_long_had_no_effect(channel: Channel) -> None:
    with channel._busy, pytest.raises(Retry, match="busy"):
        channel.call("pid", {}, "drain gpu-0", deadline=0.1, write=True)


@pytest.mark.parametrize(
    ("command", "deadline", "error"),
    [
        (["/no/such/worker"], LONG, GiveUp),
        ([sys.executable, "-c", "pass"], LONG, Retry),
        ([sys.executable, "-c", "print('hello', flush=True); input()"], LONG, Retry),
        ([sys.executable, "-c", "import time; time.sleep(60)"], SOON, Retry),
        ([sys.executable, "-c", "print('{\"ready\": 0}', flush=True); input()"], LONG, GiveUp),
    ],
)
def test_a_write_to_a_worker_that_does_not_start_surely_had_no_effect(
    command: list[str], deadline: float, error: type[RemediatorError]
) -> None:
    channel = channel_to(*command)
    with pytest.raises(error):
        channel.call("pid", {}, "drain gpu-0", deadline=deadline, write=True)
    channel.close()


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
