"""What the API server's answers mean to a caller; urllib3's exceptions end here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from urllib3 import exceptions as wire

from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry

Json = dict[str, Any]
MAX_TEXT = 300
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")
_GROUP_PREFIX = re.compile(r"^/(api/v1|apis/[^/]+/[^/]+)/")


class Conflict(Retry):
    """409: somebody wrote first (or the object exists); read again and decide anew."""


class Gone(Retry):
    """410: the resourceVersion or continue token is too old; list again."""


@dataclass(frozen=True)
class Call:
    """One request, as errors name it; `writes` is False for everything without a lasting effect."""

    verb: str
    path: str
    writes: bool

    def __str__(self) -> str:
        return f"{self.verb} {_GROUP_PREFIX.sub('', self.path)}"


def lost_answer(call: Call, reason: str, after: float = 1.0) -> RemediatorError:
    """The request may have arrived: harmless for a read, ambiguous for a write."""
    text = f"{call}: {clean(reason)}"
    return Ambiguous(text) if call.writes else Retry(text, after)


def transport_error(call: Call, error: wire.HTTPError) -> RemediatorError:
    """The typed form of a failed exchange: did bytes of the request leave or not?"""
    if isinstance(error, wire.SSLError):
        return _tls_error(call, error)
    if isinstance(error, wire.NewConnectionError | wire.ConnectTimeoutError | wire.ProxyError):
        return Retry(f"{call}: the API server cannot be reached ({type(error).__name__})")
    return lost_answer(call, f"no whole answer ({type(error).__name__})")


def answer_error(call: Call, status: int, headers: Mapping[str, str], body: object) -> RemediatorError:
    """The typed form of an HTTP status other than 2xx; `body` is parsed JSON or None."""
    said = body if isinstance(body, dict) else {}
    answer = f"HTTP {status} {clean(str(said.get('message') or ''))}".rstrip()
    text = f"{call}: {answer}"
    after = _retry_after(headers, said)
    if status == 429:
        budgets = _budgets(said)
        return Retry(text, after) if budgets is None else Blocked(f"{text} {clean(budgets)}".rstrip())
    if status == 500 and SEVERAL_BUDGETS in answer:
        return Blocked(text)
    if status >= 500:
        return lost_answer(call, answer, after)
    if status in (404, 409, 410):
        return {404: Retry, 409: Conflict, 410: Gone}[status](text, after)
    if status in (401, 403):
        return GiveUp(f"{text}; check the service account's token and RBAC for '{call}'")
    if 300 <= status < 400:
        return GiveUp(f"{text}: unexpected redirect; check the API server's address")
    return BadInput(str(call), answer)


def is_absent(status: int, body: object) -> bool:
    """A 404 that speaks of the object; a bare 404 (proxy, server still starting) says nothing."""
    return status == 404 and isinstance(body, dict) and body.get("reason") == "NotFound"


def clean(text: str) -> str:
    """Foreign text fit for one log line."""
    return _UNPRINTABLE.sub(" ", text)[:MAX_TEXT]


def _tls_error(call: Call, error: wire.SSLError) -> RemediatorError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return GiveUp(f"{call}: the API server's certificate is not trusted; check the configured CA")
    return lost_answer(call, "TLS failed")


def _budgets(said: Json) -> str | None:
    """What the answer says about disruption budgets; None when it is not about them."""
    details = said.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    rows = [row for row in causes if isinstance(row, dict)] if isinstance(causes, list) else []
    found = [str(row.get("message") or "") for row in rows if row.get("reason") == "DisruptionBudget"]
    return " ".join(found) if found else None


def _retry_after(headers: Mapping[str, str], said: Json) -> float:
    details = said.get("details")
    asked = headers.get("Retry-After") or (
        details.get("retryAfterSeconds") if isinstance(details, dict) else None
    )
    try:
        return min(max(float(asked), 0.0), 300.0) if asked else 1.0
    except (TypeError, ValueError):
        return 1.0
