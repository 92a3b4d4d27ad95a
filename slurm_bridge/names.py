"""Names that may reach Slurm: one literal node, one literal job. Never `ALL`, ranges or lists."""

from __future__ import annotations

import re

from remediator.errors import BadInput

_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,9})?")
_RESERVED = frozenset({"ALL", "DEFAULT", "LOCALHOST"})
_REASON_MAX = 256


def node_name(name: str) -> str:
    """The name unchanged, or BadInput when it is not one literal node name."""
    if not _NODE.fullmatch(name) or name.upper() in _RESERVED:
        raise BadInput("node", f"{name[:80]!r} is not one literal node name")
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
