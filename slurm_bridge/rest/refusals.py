"""What an answer that is not a success means: HTTP status, `errors[]` and shape decide together."""

from __future__ import annotations

from typing import Any

from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry
from slurm_bridge.rest.transport import Answer

ESLURM_PROTOCOL_AUTHENTICATION = 1007
ESLURM_CONNECT_FAILED = 1800
ESLURM_INVALID_JOB_ID = 2017
ESLURM_INVALID_NODE_NAME = 2018
ESLURM_JOB_PENDING = 2024
ESLURM_RESERVATION_INVALID = 2053
ESLURM_JOB_NOT_PENDING = 2073
ESLURM_JOB_FINISHED = 2084

_RIGHTS = "Slurm refuses our user: the token must be of SlurmUser, root or an operator"
_MEANING: dict[int, tuple[type[RemediatorError], str]] = {
    1002: (GiveUp, "slurmrestd and slurmctld speak different protocol versions"),
    1005: (GiveUp, "slurmrestd and slurmctld speak different protocol versions"),
    ESLURM_CONNECT_FAILED: (Retry, "slurmrestd cannot connect to slurmctld"),
    2002: (GiveUp, _RIGHTS),
    2010: (GiveUp, _RIGHTS),
    2021: (Blocked, "the job is already over"),
    2037: (Blocked, "the job may not be requeued (Requeue=0), or its partition is gone"),
    2039: (Blocked, "the job has no batch script (salloc or srun)"),
    2052: (Blocked, "the job's owner may not use the reservation"),
    2054: (GiveUp, "slurmctld refuses the start time: its clock and ours differ"),
    2055: (Blocked, "a job is still in the reservation"),
    2058: (Blocked, "another reservation holds one of the nodes"),
    ESLURM_JOB_FINISHED: (Blocked, "the job is already over"),
    2096: (Blocked, "only scrontab itself may change a scrontab job"),
    2104: (Blocked, "a reservation of this name has begun already"),
    2180: (Blocked, "the node is not in a state that allows this change"),
    2202: (GiveUp, _RIGHTS),
}
_INPUT: dict[int, tuple[str, str]] = {
    ESLURM_INVALID_JOB_ID: ("job", "slurmctld knows no such job (any more)"),
    ESLURM_INVALID_NODE_NAME: ("node", "slurmctld knows no such node"),
    ESLURM_RESERVATION_INVALID: ("reservation", "slurmctld knows no such reservation, or none of its nodes"),
    2107: ("job", "not the leader of its heterogeneous job: name the leader"),
    2207: ("node", "slurmctld knows no such node"),
}


def is_auth_failure(answer: Answer) -> bool:
    """The token was refused, so the request surely had no effect."""
    if answer.status in {401, 511} or ESLURM_PROTOCOL_AUTHENTICATION in error_numbers(answer):
        return True
    # A ping with a bad token is HTTP 200 without errors[]; only v0.0.45 says why it failed.
    pings = _entries(answer.body or {}, "pings")
    return any("authentication" in str(ping.get("status")).lower() for ping in pings)


def error_numbers(answer: Answer) -> list[int]:
    """Every Slurm error number of the answer: `errors[]` and the per-task `status[]` of a requeue."""
    if answer.body is None:
        return []
    numbers = [_number(entry, "error_number") for entry in _entries(answer.body, "errors")]
    return numbers + [n for e in _entries(answer.body, "status") if (n := _number(e, "error_code"))]


def is_success(answer: Answer) -> bool:
    """HTTP 200, a whole Slurm answer, no error of any kind in it."""
    body = answer.body
    return (
        answer.status == 200
        and body is not None
        and body.get("errors") == []
        and isinstance(body.get("meta"), dict)
        and not error_numbers(answer)
    )


def refusal(answer: Answer, doing: str, *, write: bool) -> RemediatorError:
    """The error for an answer that is no success (nor an auth failure); `doing` is like `drain gpu-0`."""
    for number in error_numbers(answer):
        if number in _INPUT:
            return BadInput(_INPUT[number][0], f"{doing}: {_INPUT[number][1]}")
        if number in _MEANING:
            kind, text = _MEANING[number]
            return kind(f"{doing}: {text}")
    return _unknown(answer, doing, write=write)


def _unknown(answer: Answer, doing: str, *, write: bool) -> RemediatorError:
    what = f"{doing}: HTTP {answer.status}, {_first_description(answer)}"
    if answer.status == 429:
        return Retry(what)
    if answer.status == 404 and answer.body is None:
        return GiveUp(f"{doing}: slurmrestd has no such endpoint")
    if 400 <= answer.status < 500:
        return GiveUp(what)
    return Ambiguous(what) if write else Retry(what)


def _first_description(answer: Answer) -> str:
    if answer.body is None:
        return "not a Slurm answer"
    for entry in _entries(answer.body, "errors"):
        return f"Slurm error {_number(entry, 'error_number')}: {str(entry.get('error'))[:120]}"
    return "not a whole Slurm answer"


def _entries(body: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = body.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _number(entry: dict[str, Any], key: str) -> int:
    value = entry.get(key)
    return value if isinstance(value, int) else 0
