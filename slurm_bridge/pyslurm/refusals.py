"""What a worker's error means: its errno decides, a number nobody knows is unknown."""

from __future__ import annotations

from typing import Any

from remediator.errors import Ambiguous, GiveUp, RemediatorError, Retry
from slurm_bridge.errnos import ESLURM_PROTOCOL_AUTHENTICATION, meaning
from slurm_bridge.rest.token import TokenSource, origin


def refusal(error: dict[str, Any], doing: str, token: TokenSource, *, write: bool) -> RemediatorError:
    """The error for `{"errno", "text"}`; `doing` is like `drain gpu-0`."""
    number = error.get("errno")
    if number == ESLURM_PROTOCOL_AUTHENTICATION:
        where = origin(token)
        return GiveUp(f"token refused by Slurm (expired, or another user's or cluster's): renew {where}")
    known = meaning(number, doing, "the pyslurm worker") if isinstance(number, int) else None
    text = f"{doing}: Slurm error {number}: {str(error.get('text'))[:120]}"
    return known or (Ambiguous(text) if write else Retry(text))
