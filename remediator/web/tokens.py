"""Bearer tokens in files: one, or two while a sender is moved from the old to the new."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Sequence
from pathlib import Path

from remediator.errors import Retry
from remediator.web.auth import LONGEST_TOKEN, bearer
from remediator.web.replies import Unauthenticated


class TokenFiles:
    """Lets in who sends the token of any file; a file is read again when it changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [_TokenFile(path) for path in paths]

    def check(self, header: str | None) -> None:
        """Return when an Authorization header holds a valid token, else Unauthenticated.

        Retry while a file cannot be read: its token may be the sender's, and Alertmanager drops after a 401.
        """
        sent = bearer(header).encode()
        tokens = [file.token() for file in self._files]
        matches = [hmac.compare_digest(sent, token) for token in tokens if token]  # all, whichever fits
        if any(matches):
            return
        if not all(tokens):
            raise Retry("a file of webhook.token_paths cannot be read or holds no token")
        raise Unauthenticated("the token is not one of this service's; see webhook.token_paths")


class _TokenFile:
    """The token in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = (0, 0, 0)
        self._token = b""

    def token(self) -> bytes:
        """The present token, empty when there is none to be read."""
        with self._lock:
            try:
                return self._read()
            except OSError:
                return b""

    def _read(self) -> bytes:
        stat = self._path.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp != self._stamp:
            with self._path.open("rb") as file:
                self._token = _whole(file.read(LONGEST_TOKEN + 1))
            self._stamp = stamp
        return self._token


def _whole(text: bytes) -> bytes:
    token = text.strip()
    return token if len(token) <= LONGEST_TOKEN and token.isascii() and token.decode().isprintable() else b""
