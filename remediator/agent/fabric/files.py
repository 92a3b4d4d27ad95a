"""Small files of sysfs. One that cannot be read is unknown, never zero, and stops no other."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LONGEST = 4096
_DIGITS = re.compile(r"([0-9]+)")
# A counter of 64 bits that stands at its end, or above half of it, is no count of anything.
_TOO_LARGE = 2**63


class Files:
    """Reads below one root, and counts what was there and could not be read."""

    def __init__(self) -> None:
        self.unreadable = 0

    def text(self, path: str) -> str | None:
        """A file's text; None where it is missing or unreadable."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.read(descriptor, _LONGEST).decode(errors="replace").strip()
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError:
            self.unreadable += 1
            return None

    def number(self, path: str) -> int | None:
        """A counter; None where it is missing, unreadable, or says `N/A (no PMA)`."""
        text = self.text(path)
        if text is None or not text.isascii() or not text.isdecimal() or len(text) > 20:
            self.unreadable += text is not None
            return None
        value = int(text)
        return value if value < _TOO_LARGE else None


def names(folder: Path | str) -> list[str]:
    """Names in a folder, mlx5_2 before mlx5_10; empty where it is missing. OSError where it is unreadable."""
    try:
        return sorted(os.listdir(folder), key=in_order)
    except (FileNotFoundError, NotADirectoryError):
        return []


def in_order(name: str) -> list[tuple[int, str]]:
    """Sorts numbers in names as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
