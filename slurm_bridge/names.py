"""Names that may reach Slurm: literal nodes, jobs, users and reservations. Never `ALL`, ranges or lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

from remediator.errors import BadInput

_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,9})?")
# No leading minus: Slurm reads `-alice` as "everybody but alice".
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_RESERVATION = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_RESERVED = frozenset({"ALL", "DEFAULT", "LOCALHOST"})
_REASON_MAX = 256


def node_name(name: str) -> str:
    """The name unchanged, or BadInput when it is not one literal node name."""
    if not _NODE.fullmatch(name) or name.upper() in _RESERVED:
        raise BadInput("node", f"{name[:80]!r} is not one literal node name")
    return name


def node_list(names: Iterable[str]) -> list[str]:
    """At least one literal node name, or BadInput: for an empty list Slurm chooses nodes itself."""
    found = [node_name(name) for name in names]
    if not found:
        raise BadInput("nodes", "wants at least one node")
    return found


def user_list(names: Iterable[str]) -> list[str]:
    """At least one literal user name, or BadInput."""
    found = list(names)
    if not found or not all(_USER.fullmatch(name) for name in found):
        raise BadInput("users", f"{', '.join(found)[:80]!r} is not a list of literal user names")
    return found


def reservation_name(name: str) -> str:
    """The name unchanged, or BadInput when it is not one literal reservation name."""
    if not _RESERVATION.fullmatch(name):
        raise BadInput("reservation", f"{name[:80]!r} is not one literal reservation name")
    return name


def job_address(address: str) -> str:
    """`12` or `12_3` unchanged, or BadInput."""
    if not _JOB.fullmatch(address):
        raise BadInput("job", f"{address[:80]!r} is not a job id or an array task such as 12_3")
    return address


def reason(text: str) -> str:
    """A reason Slurm stores as it is: one printable line of at most 256 characters."""
    if not text or len(text) > _REASON_MAX or not text.isprintable():
        raise BadInput("reason", f"wants one printable line of 1 to {_REASON_MAX} characters")
    return text
