"""One HTTP exchange with slurmrestd: its bytes, or an error that says whether it may have had effect."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any

from remediator.clock import Clock
from remediator.errors import Ambiguous, RemediatorError, Retry
from slurm_bridge.rest.sockets import Connection, Connections, Deadline

MAX_BODY = 256 * 1024 * 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and parsed body; `body` is None when it is not a JSON object."""

    status: int
    body: dict[str, Any] | None


class Transport:
    """Keep-alive HTTP to one slurmrestd; one attempt per call, never a retry or a redirect."""

    def __init__(self, url: str, user: str, clock: Clock) -> None:
        self._deadline = Deadline(clock)
        self._connections = Connections(url, self._deadline)
        self._user = user

    def start(self, seconds: float) -> None:
        """Begin a port call: all exchanges until the next `start` on this thread share the time."""
        self._deadline.start(seconds)

    def get(self, path: str, token: str) -> Answer:
        """A read: every failure is Retry."""
        return self._exchange("GET", path, token, None, Retry)

    def post(self, path: str, token: str, body: dict[str, Any]) -> Answer:
        """A write: once bytes have left, every failure is Ambiguous."""
        return self._exchange("POST", path, token, json.dumps(body).encode(), Ambiguous)

    def delete(self, path: str, token: str) -> Answer:
        """A write, as `post`."""
        return self._exchange("DELETE", path, token, None, Ambiguous)

    def _exchange(
        self, method: str, path: str, token: str, body: bytes | None, unsure: type[RemediatorError]
    ) -> Answer:
        headers = self._headers(token, body)
        try:
            self._deadline.left()
        except TimeoutError:
            raise Retry(f"no time left for {method} {path}") from None
        try:
            connection = self._connections.take()
        except OSError:
            raise Retry(f"slurmrestd does not accept connections ({method} {path})") from None
        try:
            return self._send(connection, method, path, body, headers)
        except (HTTPException, OSError) as error:
            # The text of the cause may carry headers; its kind is enough.
            raise unsure(f"no complete answer to {method} {path}: {type(error).__name__}") from None

    def _headers(self, token: str, body: bytes | None) -> dict[str, str]:
        headers = {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": token}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return headers

    def _send(
        self, connection: Connection, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            raw = _read(response)
        except BaseException:
            connection.close()
            raise
        self._connections.give_back(connection, response)
        return Answer(response.status, _parse(raw))


def _read(response: HTTPResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            raise HTTPException("body too large")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
