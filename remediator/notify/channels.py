"""Where messages go: the log, and a file of JSON lines that anything can follow."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from remediator.clock import rfc3339
from remediator.errors import Retry
from remediator.observe.logs import logger
from remediator.store.outbox import Waiting

log = logger(stage="notify")


class Channel(Protocol):
    """Takes a message or raises Retry; may get the same one twice after a crash."""

    def send(self, waiting: Waiting) -> None:
        """Deliver one message."""


class LogChannel:
    """The service's own log; a page is a warning."""

    def send(self, waiting: Waiting) -> None:
        """Write one line."""
        message = waiting.message
        write = log.warning if message.urgency == "page" else log.info
        write(message.urgency, audience=message.audience, incident=waiting.incident, text=message.text)


class FileChannel:
    """Appends to a file; the message's id lets a reader drop what came twice."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, waiting: Waiting) -> None:
        """Append one line and flush it to disk; Retry when the file cannot be written."""
        line = waiting.message.model_dump() | {
            "id": waiting.id,
            "incident": waiting.incident,
            "at": rfc3339(waiting.written_at),
        }
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(line, sort_keys=True) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Retry(f"notify.file: {self._path} cannot be written ({error.strerror})") from error


def send_all(channels: Sequence[Channel], waiting: Waiting) -> None:
    """Every channel, in order; the first that fails makes the whole message due again."""
    for channel in channels:
        channel.send(waiting)
