"""What an agent keeps on disk: cursor, spool of unsent events, dead letters. All writes are atomic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from remediator.model.base import Ours
from remediator.model.signal import PushedEvent

DEAD_LETTER_BYTES = 1024 * 1024
STATE_BYTES = 64 * 1024 * 1024

T = TypeVar("T", bound=Ours)


class Cursor(Ours):
    """A place in the kernel log of one boot; `place` is the source's own way to find it again."""

    boot_id: str
    seq: int
    place: str = ""


class Spool(Ours):
    """Events read but not yet accepted, and how far the log was read with them."""

    read: Cursor
    events: tuple[PushedEvent, ...]


class StateDir:
    """The agent's directory; a file that is missing or damaged counts as absent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True)

    def load(self, name: str, kind: type[T]) -> T | None:
        """What was saved under `name`."""
        try:
            return kind.model_validate_json((self._path / name).read_bytes()[:STATE_BYTES])
        except (OSError, ValidationError):
            return None

    def save(self, name: str, what: Ours) -> None:
        """Durable when this returns; OSError when it cannot be."""
        self._write(name, what.model_dump_json().encode())

    def load_cursor(self) -> Cursor | None:
        """The last acknowledged place."""
        return self.load("cursor.json", Cursor)

    def save_cursor(self, cursor: Cursor) -> None:
        """Durable when this returns; OSError when it cannot be."""
        self.save("cursor.json", cursor)

    def load_spool(self) -> Spool | None:
        """Events that were not accepted before the last stop."""
        return self.load("spool.json", Spool)

    def save_spool(self, spool: Spool) -> None:
        """Durable when this returns; OSError when it cannot be."""
        self.save("spool.json", spool)

    def drop_spool(self) -> None:
        """Everything in it was accepted."""
        (self._path / "spool.json").unlink(missing_ok=True)

    def bury(self, events: tuple[PushedEvent, ...], reason: str) -> None:
        """Append events that will never be pushed again to the dead letters; two files of 1 MiB are kept."""
        path = self._path / "dead-letters.jsonl"
        if path.exists() and path.stat().st_size > DEAD_LETTER_BYTES:
            path.replace(self._path / "dead-letters.1.jsonl")
        with path.open("a", encoding="utf-8") as file:
            file.writelines(
                f'{{"reason":"{reason}","event":{event.model_dump_json()}}}\n' for event in events
            )

    def _write(self, name: str, data: bytes) -> None:
        new = self._path / f"{name}.new"
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path / name)
        directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
