"""Calls to one slurmrestd: the version both sides speak, the token renewed under us, whole answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from remediator.clock import Clock
from remediator.errors import BadInput, GiveUp, Retry
from slurm_bridge.rest import decode
from slurm_bridge.rest.fields import number
from slurm_bridge.rest.refusals import is_auth_failure, is_success, refusal
from slurm_bridge.rest.token import TokenSource, origin
from slurm_bridge.rest.transport import Answer, Transport
from slurm_bridge.rest.version import NEWEST, probe

T = TypeVar("T")


class Session:
    """Every port call begins with `start`; all its exchanges share the time given there."""

    def __init__(self, url: str, user: str, token: TokenSource, clock: Clock) -> None:
        self._http = Transport(url, user, clock)
        self._token = token
        self._version = 0

    def start(self, deadline: float) -> None:
        """Begin a port call of at most `deadline` seconds on this thread."""
        self._http.start(deadline)

    def get(self, path: str) -> Answer:
        """Read below `/slurm/v0.0.N/`."""
        return self._send(partial(self._http.get, self._full(path)))

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """Write below `/slurm/v0.0.N/`."""
        full = self._full(path)
        return self._send(lambda token: self._http.post(full, token, body))

    def delete(self, path: str) -> Answer:
        """Delete below `/slurm/v0.0.N/`."""
        return self._send(partial(self._http.delete, self._full(path)))

    def is_newest(self) -> bool:
        """Whether v0.0.45 is spoken; Slurm may have been upgraded since the last probe."""
        return self._parser() >= NEWEST or self._probe() >= NEWEST

    def newest(self) -> int:
        """The newest data_parser of both sides, asked for now."""
        return self._probe()

    def ping(self) -> None:
        """Return when slurmctld answers slurmrestd, else raise.

        Without it a write waits in slurmrestd for a dead slurmctld and lands later, on another run.
        """
        pings = whole(self.get("ping/"), "ping slurmctld").get("pings")
        first = pings[0] if isinstance(pings, list) and pings else None
        if not isinstance(first, dict) or first.get("responding") is not True:
            raise Retry("slurmctld does not answer slurmrestd (or the token has expired)")

    def _full(self, path: str) -> str:
        return f"/slurm/v0.0.{self._parser()}/{path}"

    def _parser(self) -> int:
        return self._version or self._probe()

    def _probe(self) -> int:
        self._version = probe(lambda path: self._send(partial(self._http.get, path)))
        return self._version

    def _send(self, call: Callable[[str], Answer]) -> Answer:
        """One exchange; once more only when the token was refused and has been renewed meanwhile."""
        token = self._token()
        answer = call(token)
        if is_auth_failure(answer) and (renewed := self._token()) != token:
            answer = call(renewed)
        if is_auth_failure(answer):
            where = origin(self._token)
            raise GiveUp(f"token refused by Slurm (expired, or another user's or cluster's): renew {where}")
        if answer.status == 404 and answer.body is None:
            self._version = 0
        return answer


def whole(answer: Answer, doing: str) -> dict[str, Any]:
    """The body of a read that succeeded, or what its failure means."""
    if answer.body is None or not is_success(answer):
        raise refusal(answer, doing, write=False)
    return answer.body


def from_ctld(answer: Answer, doing: str) -> dict[str, Any]:
    """`whole`, and Retry unless the list comes from slurmctld: an empty one may be true."""
    body = whole(answer, doing)
    if not number(body.get("last_update")):
        raise Retry(f"{doing}: the answer does not come from slurmctld")
    return body


def decoded(body: dict[str, Any], key: str, one: Callable[[dict[str, Any]], T], doing: str) -> tuple[T, ...]:
    """All records under `key`; Retry when one of them cannot be read."""
    try:
        return tuple(one(raw) for raw in decode.records(body, key))
    except BadInput as error:
        raise Retry(f"{doing}: cannot read the answer: {error}") from error
