"""Writes over REST: every answer names what the caller should do, and nothing is sent twice."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from remediator.clock import ManualClock, SystemClock
from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry
from slurm_bridge.model import SlurmJob
from slurm_bridge.rest.backend import RestSlurm
from tests.servers.wire import Reply, Request, Wire, reply_json, wire
from tests.unit.slurm.answers import GOOD, error, number, slurmrestd, whole

DEADLINE = 5.0
JOB = SlurmJob(job_id=1, state="RUNNING", batch=True, requeue=True)
TASK = SlurmJob(job_id=8, state="RUNNING", array_job_id=3, array_task_id=1)

Call = Callable[[RestSlurm, float], None]
WRITES: dict[str, tuple[Call, str]] = {
    "drain": (lambda s, d: s.drain("gpu-0", "remediator: x", deadline=d), "node/gpu-0"),
    "resume": (lambda s, d: s.resume("gpu-0", deadline=d), "node/gpu-0"),
    "set_down": (lambda s, d: s.set_down("gpu-0", "remediator: x", deadline=d), "node/gpu-0"),
    "requeue": (lambda s, d: s.requeue(JOB, deadline=d), "jobs/requeue"),
    "start_now": (lambda s, d: s.start_now(1, deadline=d), "job/1"),
    "hold_job": (lambda s, d: s.hold_job(1, deadline=d), "job/1"),
    "unhold_job": (lambda s, d: s.unhold_job(1, deadline=d), "job/1"),
    "set_job_reservation": (lambda s, d: s.set_job_reservation(1, "place", deadline=d), "job/1"),
    "reserve": (lambda s, d: s.reserve("place", ["gpu-0"], ["alice"], 15, deadline=d), "reservation"),
    "resize": (lambda s, d: s.resize_reservation("place", ["gpu-0"], deadline=d), "reservation"),
    "delete": (lambda s, d: s.delete_reservation("place", deadline=d), "reservation/place"),
}
WRITING = {"POST", "DELETE"}
every_write = pytest.mark.parametrize("op", WRITES)


def rest(url: str) -> RestSlurm:
    return RestSlurm(url, "slurm", lambda: "secret-token", SystemClock())


def post_answers(op: str, reply: Reply) -> Callable[[Request], Reply]:
    """Reads are good; the write gets `reply`."""
    reads = slurmrestd()
    return lambda request: reply if request.method in WRITING else reads(request)


def attempt(op: str, it: Wire) -> RemediatorError | None:
    try:
        WRITES[op][0](rest(it.url), DEADLINE)
    except RemediatorError as raised:
        return raised
    return None


@every_write
def test_a_whole_answer_without_errors_is_success(op: str) -> None:
    with wire(post_answers(op, reply_json(whole({})))) as it:
        assert attempt(op, it) is None
        assert [r.path for r in it.requests if r.method in WRITING] == [f"/slurm/v0.0.45/{WRITES[op][1]}"]


AMBIGUOUS = {
    "no answer": Reply(drop=True),
    "cut body": Reply(200, GOOD["ping/"].body, cut=20),
    "half a body that is called whole": Reply(200, GOOD["ping/"].body[:-20]),
    "garbage": Reply(200, b"<html>"),
    "not http": Reply(raw=b"\x00\x01\x02"),
    "500": Reply(500, b""),
    "503 from a proxy": Reply(503, b"no healthy upstream"),
    "200 with an unknown error": reply_json(error(9999)),
    "200 with error number 0": reply_json(error(0)),
    "200 without meta": reply_json({"errors": []}),
    "200 empty": Reply(200, b""),
    "slurmctld's answer lost": reply_json(error(1802), 500),
}


@every_write
@pytest.mark.parametrize("reply", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_a_write_that_may_have_happened_is_ambiguous_and_sent_once(op: str, reply: Reply) -> None:
    with wire(post_answers(op, reply)) as it:
        assert isinstance(attempt(op, it), Ambiguous)
        assert sum(r.method in WRITING for r in it.requests) == 1


@every_write
def test_a_late_answer_is_ambiguous(op: str) -> None:
    with wire(post_answers(op, Reply(hold=60))) as it, pytest.raises(Ambiguous):
        WRITES[op][0](rest(it.url), 0.5)


@every_write
def test_nobody_listening_is_retry(op: str) -> None:
    with pytest.raises(Retry):
        WRITES[op][0](rest("http://127.0.0.1:1"), DEADLINE)


SLURM_ERRORS: list[tuple[int, int, type[RemediatorError], str]] = [
    (1800, 500, Retry, "connect to slurmctld"),
    (2002, 422, GiveUp, "refuses our user"),
    (2010, 422, GiveUp, "refuses our user"),
    (2017, 404, BadInput, "no such job"),
    (2018, 422, BadInput, "no such node"),
    (2021, 422, Blocked, "already over"),
    (2037, 422, Blocked, "Requeue=0"),
    (2039, 422, Blocked, "no batch script"),
    (2052, 422, Blocked, "may not use"),
    (2053, 422, BadInput, "no such reservation"),
    (2054, 422, GiveUp, "clock"),
    (2055, 422, Blocked, "still in the reservation"),
    (2058, 422, Blocked, "another reservation"),
    (2084, 422, Blocked, "already over"),
    (2104, 422, Blocked, "begun already"),
    (2107, 422, BadInput, "leader"),
    (2180, 422, Blocked, "not in a state"),
    (1007, 511, GiveUp, "token refused"),
    (4242, 422, GiveUp, "Slurm error 4242"),
]


@pytest.mark.parametrize(("code", "status", "kind", "text"), SLURM_ERRORS)
def test_slurms_own_numbers_are_understood(
    code: int, status: int, kind: type[RemediatorError], text: str
) -> None:
    with wire(post_answers("requeue", reply_json(error(code), status))) as it:
        raised = attempt("requeue", it)
    assert type(raised) is kind
    assert text in str(raised)


def test_a_job_that_is_pending_already_counts_as_requeued() -> None:
    with wire(post_answers("requeue", reply_json(error(2024, status=[]), 422))) as it:
        assert attempt("requeue", it) is None


def test_pending_beside_another_error_is_no_success() -> None:
    both = error(2024, status=[{"error_code": 2037, "job_id": 3}])
    with wire(post_answers("requeue", reply_json(both, 422))) as it:
        assert isinstance(attempt("requeue", it), Blocked)


@pytest.mark.parametrize(("code", "expected"), [(0, None), (2024, None), (2037, Blocked)])
def test_an_array_task_is_named_by_its_address_and_judged_by_its_status(
    code: int, expected: type[RemediatorError] | None
) -> None:
    """HTTP 200 and an empty errors[] may hide a refusal in status[]."""
    status = [{"job_id": 3, "step_id": "3_[1]", "error": "?", "error_code": code}]
    with wire(post_answers("requeue", reply_json(whole({"status": status})))) as it:
        if expected is None:
            rest(it.url).requeue(TASK, deadline=DEADLINE)
        else:
            with pytest.raises(expected):
                rest(it.url).requeue(TASK, deadline=DEADLINE)
        assert it.requests[-1].body == b'{"jobs": ["3_1"]}'


def test_a_requeue_that_is_to_end_held_says_so_in_the_same_request() -> None:
    with wire(post_answers("requeue", reply_json(whole({})))) as it:
        rest(it.url).requeue(TASK, held=True, deadline=DEADLINE)
        assert it.requests[-1].body == b'{"jobs": ["3_1"], "flags": ["Hold"]}'


HARMLESS = {"start_now": 2073, "delete": 2053}


@pytest.mark.parametrize("op", HARMLESS)
def test_what_is_done_already_is_success(op: str) -> None:
    with wire(post_answers(op, reply_json(error(HARMLESS[op]), 422))) as it:
        assert attempt(op, it) is None


@pytest.mark.parametrize(("name", "expected"), [("", None), ("place", Blocked)])
def test_a_finished_job_can_only_be_taken_out_of_its_reservation(
    name: str, expected: type[RemediatorError] | None
) -> None:
    with wire(post_answers("set_job_reservation", reply_json(error(2084), 422))) as it:
        if expected is None:
            rest(it.url).set_job_reservation(1, name, deadline=DEADLINE)
        else:
            with pytest.raises(expected):
                rest(it.url).set_job_reservation(1, name, deadline=DEADLINE)


def test_a_reservation_begins_a_minute_ago_and_ends_in_time() -> None:
    """A slurmctld whose clock is behind ours would leave the nodes to others at first."""
    clock = ManualClock()
    with wire(post_answers("reserve", reply_json(whole({})))) as it:
        slurm = RestSlurm(it.url, "slurm", lambda: "secret-token", clock)
        slurm.reserve("place", ("gpu-0", "gpu-1"), ("alice",), 15, deadline=DEADLINE)
        sent = json.loads(it.requests[-1].body)
    assert sent == {
        "name": "place",
        "node_list": ["gpu-0", "gpu-1"],
        "users": ["alice"],
        "flags": ["FLEX", "IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"],
        "start_time": number(int(clock.now()) - 60),
        "duration": number(16),
    }


def test_a_resize_carries_no_start_time_so_that_it_cannot_create() -> None:
    with wire(post_answers("resize", reply_json(whole({})))) as it:
        rest(it.url).resize_reservation("place", ("gpu-0",), deadline=DEADLINE)
        assert json.loads(it.requests[-1].body) == {"name": "place", "node_list": ["gpu-0"]}


def test_requeue_needs_v0_0_45() -> None:
    with wire(slurmrestd(newest=44)) as it:
        raised = attempt("requeue", it)
        assert isinstance(raised, Blocked)
        assert "26.05" in str(raised)
        assert it.count("POST", "") == 0


@pytest.mark.parametrize("op", ["requeue", "set_down"])
def test_what_ends_a_run_is_not_sent_while_slurmctld_is_silent(op: str) -> None:
    """It would wait in slurmrestd and land later, on another run."""
    silent = {"pings": [{"responding": False, "status": "Unable to contact slurm controller"}]}
    with wire(slurmrestd({"ping/": reply_json(whole(silent))})) as it:
        assert isinstance(attempt(op, it), Retry)
        assert it.count("POST", "") == 0


@pytest.mark.parametrize("reason", ["", "x" * 257, "a\nb", "a\x00b"])
def test_a_reason_slurm_would_change_is_refused(reason: str) -> None:
    with wire(slurmrestd()) as it, pytest.raises(BadInput, match="reason"):
        rest(it.url).drain("gpu-0", reason, deadline=DEADLINE)


def test_no_time_left_sends_nothing() -> None:
    with wire(slurmrestd()) as it:
        with pytest.raises(Retry, match="no time left"):
            rest(it.url).drain("gpu-0", "remediator: x", deadline=0.0)
        assert it.requests == []
