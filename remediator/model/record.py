"""An audit record and its canonical bytes: the only thing that is ever hashed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from remediator.clock import rfc3339
from remediator.model.base import Ours

GENESIS = "0" * 64


class Entry(Ours):
    """What happened, before it has a place in the chain; `at` is seconds since the epoch (UTC)."""

    at: float
    actor: str
    epoch: int
    action: str
    incident: str = ""
    step: str = ""
    subject: str = ""
    attempt: int = 0
    operation: str = ""
    target: str = ""
    why: str = ""
    outcome: str = ""
    detail: dict[str, Any] = Field(default_factory=dict)


def canonical(entry: Entry, seq: int) -> str:
    """Sorted-key JSON without blanks; time as RFC 3339 UTC so that an export reads by itself."""
    body = entry.model_dump(mode="json")
    body["at"], body["unix"] = rfc3339(entry.at), round(entry.at, 3)
    body["seq"] = seq
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def chain_hash(previous: str, body: str) -> str:
    """SHA-256 over the previous hash and the canonical body."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()
