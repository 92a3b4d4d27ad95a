"""What an answer that is not a success means: HTTP status, `errors[]` and shape decide together."""

from __future__ import annotations

from typing import Any

from remediator.errors import Ambiguous, GiveUp, RemediatorError, Retry
from slurm_bridge.errnos import ESLURM_PROTOCOL_AUTHENTICATION, meaning
from slurm_bridge.rest.transport import Answer


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
        if found := meaning(number, doing, "slurmrestd"):
            return found
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
