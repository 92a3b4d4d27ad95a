"""One push to the controller: kept-alive connection, one deadline, typed outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import urllib3

from remediator.agent.settings import AgentSettings
from remediator.errors import GiveUp, Retry
from remediator.model.signal import AgentPush

PATH = "/v1/signals"
_TOKEN_BYTES = 64 * 1024
_REFUSED = frozenset({400, 413, 422})
_ANSWER_BYTES = 64 * 1024


class Pusher(Protocol):
    """Delivers one push."""

    def send(self, push: AgentPush) -> None:
        """Return once it was accepted; GiveUp when it never will be, Retry otherwise."""


class HttpPusher:
    """POSTs to the controller; the token file is read for every push, its text is never logged."""

    def __init__(self, settings: AgentSettings) -> None:
        self._url = settings.controller_url + PATH
        self._token_path = settings.token_path
        self._ca = settings.ca_path
        self._timeout = urllib3.Timeout(
            connect=settings.connect_timeout_s, read=settings.push_timeout_s, total=settings.push_timeout_s
        )
        self._pool = self._connect()

    def send(self, push: AgentPush) -> None:
        """POST `push`; 2xx is accepted, 400, 413 and 422 are final, all else is worth another try."""
        left_out = None if push.checkpoints else {"checkpoints"}
        status = self._post(push.model_dump_json(exclude=left_out).encode(), _token(self._token_path))
        if status in _REFUSED:
            raise GiveUp(f"http_{status}")
        if not 200 <= status < 300:
            raise Retry(f"http_{status}")

    def close(self) -> None:
        """Close kept connections."""
        self._pool.clear()

    def _connect(self) -> urllib3.PoolManager:
        ca = str(self._ca) if self._ca else None
        return urllib3.PoolManager(num_pools=1, maxsize=1, retries=False, timeout=self._timeout, ca_certs=ca)

    def _post(self, body: bytes, token: str) -> int:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        try:
            answer = self._pool.request(
                "POST", self._url, body=body, headers=headers, redirect=False, preload_content=False
            )
            if len(answer.read(_ANSWER_BYTES)) < _ANSWER_BYTES:
                answer.release_conn()
            else:
                answer.close()  # the rest of a long answer would be read as the next one
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # a new pool: the CA file may have been renewed, the address may have moved
            self._pool.clear()
            self._pool = self._connect()
            raise Retry(_reason(error)) from None
        return int(answer.status)


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise Retry("token_unreadable") from None
    if not text or any(character.isspace() for character in text):
        raise Retry("token_unreadable")
    return text


def _reason(error: Exception) -> str:
    """A short stable word for metrics and logs; never the exception's text, which may quote headers."""
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (urllib3.exceptions.TimeoutError, "timeout"),
        (urllib3.exceptions.SSLError, "tls"),
        (urllib3.exceptions.NewConnectionError, "connect"),
    )
    return next((word for kind, word in kinds if isinstance(error, kind)), "network")
