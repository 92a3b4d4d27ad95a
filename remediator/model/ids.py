"""Names for incidents and operations: short, sortable by time, safe in a Slurm reason."""

from __future__ import annotations

import secrets

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def _base32(number: int, width: int) -> str:
    digits = [_DIGITS[(number >> shift) & 31] for shift in range(5 * (width - 1), -1, -5)]
    return "".join(digits)


def incident_id(now: float) -> str:
    """An id such as `1kf3x0q2c-7p4m2c9h`: milliseconds since the epoch, then 40 random bits: all incidents of
    one turn share the milliseconds, and of 500 with 20 bits every eighth time two were the same.
    """
    return f"{_base32(int(now * 1000), 9)}-{_base32(secrets.randbits(40), 8)}"


def operation_id(incident: str, step: str, subject: str, attempt: int) -> str:
    """The name of one attempt at one step, the same in journal, audit record and log."""
    return ":".join(part for part in (incident, step, subject, str(attempt)) if part)
