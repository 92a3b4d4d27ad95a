"""Where the JWT comes from: a mounted file that is renewed under us, or a callable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from remediator.errors import GiveUp


class FileToken:
    """The token in a file, read again when the file changed; the text never appears in an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp = (0, 0, 0)
        self._token = ""

    def __call__(self) -> str:
        """The current token, or GiveUp naming the file."""
        with self._lock:
            try:
                return self._read()
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "not text"
                raise GiveUp(f"cannot read the Slurm token {self.path}: {why}") from None

    def _read(self) -> str:
        stat = self.path.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp != self._stamp:
            self._token = self.path.read_text().strip().removeprefix("SLURM_JWT=")
            self._stamp = stamp
        if not self._token.isascii() or not self._token.isprintable() or not self._token:
            raise GiveUp(f"the Slurm token {self.path} is empty or not a token")
        return self._token


TokenSource = Callable[[], str]


def origin(source: TokenSource) -> str:
    """Where a person finds the token: its file, or `it` when it does not come from one."""
    return str(source.path) if isinstance(source, FileToken) else "it"
