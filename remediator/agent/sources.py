"""Where kernel lines come from: one protocol, three sources, chosen by a setting."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from remediator.agent.records import Item
from remediator.agent.state import Cursor


class Source(Protocol):
    """A kernel log that is read without blocking."""

    more: bool
    """True when the last read stopped before the end of what is there."""

    def fileno(self) -> int | None:
        """A descriptor that becomes readable with new records; None when it has to be polled."""

    def read(self) -> list[Item]:
        """The next records, gaps and restarts; empty when nothing is new."""

    def booted_at(self, now: float, steady: float) -> float:
        """Wall time of the records' microsecond 0, given the machine's wall time and uptime."""

    def close(self) -> None:
        """Give descriptors and child processes back."""


def open_source(setting: str, after: Cursor | None) -> Source:
    """The source that `setting` names, from `after` on; None reads from the start of the boot."""
    # imported here: a process needs one of them
    kind, _, path = setting.partition(":")
    if kind == "kmsg":
        from remediator.agent.kmsg_device import KmsgSource  # noqa: PLC0415

        return KmsgSource(Path(path), after)
    if kind == "file":
        from remediator.agent.file_tail import FileSource  # noqa: PLC0415

        return FileSource(Path(path), after)
    from remediator.agent.journald import JournaldSource  # noqa: PLC0415

    return JournaldSource(after)
