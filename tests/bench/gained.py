"""What a log gains while a benchmark waits for a line of it."""

from __future__ import annotations

from pathlib import Path


class Gained:
    """The whole lines that a file has gained since this object was made, each told once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size

    def skip(self) -> None:
        """Forget what was written until now."""
        self._offset = self._path.stat().st_size

    def new(self) -> bytes:
        """Lines that nobody has seen yet, without one that is being written."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole
