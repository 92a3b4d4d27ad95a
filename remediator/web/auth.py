"""Who sends: bearer tokens of agents, vouched for by the API server and remembered for a short while."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from remediator.clock import Clock
from remediator.web.replies import Refused, Unauthenticated

ACCEPTED_S = 60.0
DENIED_S = 5.0
MOST_ACCEPTED = 20_000
MOST_DENIED = 2_000
LONGEST_TOKEN = 8192


class Reviewed(Protocol):
    """The API server's verdict on a token; `node` is empty unless the token is bound to a pod."""

    @property
    def authenticated(self) -> bool:
        """Whether the token is valid for our audience."""

    @property
    def username(self) -> str:
        """Name of the user or ServiceAccount."""

    @property
    def node(self) -> str:
        """Name of the node whose pod holds the token."""


Reviewer = Callable[[str], Reviewed]


class AgentAuth:
    """Lets agents in: ServiceAccount `account`, a token bound to a node, reviewed at most a minute ago.

    `reviewer` asks the API server and raises Retry when it cannot say; that is never remembered.
    """

    def __init__(self, reviewer: Reviewer, account: str, clock: Clock) -> None:
        self._reviewer = reviewer
        self._account = account
        self._accepted = _Verdicts(clock, ACCEPTED_S, MOST_ACCEPTED)
        # apart from the accepted ones, so that made-up tokens cannot push them out
        self._denied = _Verdicts(clock, DENIED_S, MOST_DENIED)

    def remembered(self, header: str | None) -> Reviewed | None:
        """As `sender`, but never asks: None when the API server has to be asked."""
        key = _digest(bearer(header))
        verdict = self._accepted.get(key) or self._denied.get(key)
        return None if verdict is None else self._admitted(verdict)

    def sender(self, header: str | None) -> Reviewed:
        """The agent behind an Authorization header; Unauthenticated, Refused or the reviewer's Retry."""
        known = self.remembered(header)
        if known is not None:
            return known
        token = bearer(header)
        verdict = self._reviewer(token)
        (self._accepted if verdict.authenticated else self._denied).put(_digest(token), verdict)
        return self._admitted(verdict)

    def _admitted(self, verdict: Reviewed) -> Reviewed:
        if not verdict.authenticated:
            raise Unauthenticated(
                "the token is not valid for this service; mount a projected token for its audience"
            )
        if verdict.username != self._account:
            raise Refused("account", "this account may not push signals; set http.agent_account if it should")
        if not verdict.node:
            raise Refused("unbound", "the token is not bound to a node; use the projected token of a pod")
        return verdict


def bearer(header: str | None) -> str:
    """The token in an Authorization header; Unauthenticated when there is none that could be one."""
    kind, _, token = (header or "").partition(" ")
    token = token.strip()
    if kind.lower() != "bearer" or not token:
        raise Unauthenticated("send a token: Authorization: Bearer TOKEN")
    if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise Unauthenticated("this is not a token")
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class _Verdicts:
    """Verdicts by token digest, each for `seconds`; the oldest leaves when there are `most`."""

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._rows: OrderedDict[bytes, tuple[float, Reviewed]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Reviewed | None:
        with self._lock:
            until, verdict = self._rows.get(key, (0.0, None))
            return verdict if until > self._clock.steady() else None

    def put(self, key: bytes, verdict: Reviewed) -> None:
        with self._lock:
            self._rows[key] = (self._clock.steady() + self._seconds, verdict)
            self._rows.move_to_end(key)
            if len(self._rows) > self._most:
                self._rows.popitem(last=False)
