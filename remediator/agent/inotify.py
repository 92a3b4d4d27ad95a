"""inotify through libc: wakes a tail the moment its file grows or is replaced."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class Watch:
    """Watches one directory for writes to its files and for new ones; readable when something changed.

    Where inotify cannot be had (limits, an odd file system) `fd` is None and the caller polls.
    """

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int | None = None
        fd = libc.inotify_init1(_FLAGS)
        if fd < 0:
            return
        mask = ctypes.c_uint32(_MODIFY | _MOVED_TO | _CREATE)
        if libc.inotify_add_watch(fd, os.fsencode(directory), mask) < 0:
            os.close(fd)
            return
        self.fd = fd

    def drain(self) -> None:
        """Forget what was reported; the file itself says what is new."""
        if self.fd is None:
            return
        try:
            while os.read(self.fd, 64 * 1024):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give the descriptor back."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
