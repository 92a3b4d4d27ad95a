"""journald: the kernel's lines of this boot through a `journalctl` child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any

from remediator.agent.records import Gap, Item, Record
from remediator.agent.state import Cursor
from remediator.agent.stream import Lines

_COMMAND = (
    "journalctl", "--dmesg", "--follow", "--no-tail", "--quiet", "--output=json",
    "--output-fields=MESSAGE,_TRANSPORT,SYSLOG_FACILITY,_SOURCE_MONOTONIC_TIMESTAMP",
)  # fmt: skip
_CURSOR = re.compile(r"[0-9a-z=;]{1,400}")
_CHUNK = 64 * 1024
# Two lines may carry the same microsecond; each microsecond has room for sixteen numbers.
_STEP = 16
_TURNS_BETWEEN_STARTS = 5


class JournaldSource:
    """Follows `journalctl -k`; a place is journald's cursor, a number is made from microseconds.

    Any program may log a line that looks like the kernel's, so the transport and facility are checked.
    """

    def __init__(self, after: Cursor | None) -> None:
        self.more = False
        self._seq = after.seq if after else -1
        self._place = after.place if after and _CURSOR.fullmatch(after.place) else ""
        self._wait = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._known = self._seq if not self._place else -1
        self._start()

    def fileno(self) -> int | None:
        """The pipe from journalctl; None while it is down."""
        return self._out if self._child else None

    def read(self) -> list[Item]:
        """Records that have come; a dead child is started again from the last place."""
        if self._child is None:
            self._wait -= 1
            if self._wait <= 0:
                self._start()
            return []
        try:
            data = os.read(self._out, _CHUNK)
        except BlockingIOError:
            self.more = False
            return []
        if not data:
            return self._ended()
        self.more = len(data) == _CHUNK
        records = (self._record(line) for line, _ in self._lines.feed(data))
        return [record for record in records if record]

    def booted_at(self, now: float, steady: float) -> float:
        """The kernel counts from the machine's boot."""
        return now - steady

    def close(self) -> None:
        """End the child and wait for it."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()
        self._child = None

    def _start(self) -> None:
        self._fresh = True
        self._lines = Lines(limit=1024 * 1024)
        command = [*_COMMAND, f"--after-cursor={self._place}"] if self._place else list(_COMMAND)
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert child.stdout is not None  # noqa: S101 - for the type checker; it is a pipe
        self._child, self._out = child, child.stdout.fileno()
        os.set_blocking(self._out, False)

    def _ended(self) -> list[Item]:
        """The child is gone. One that failed before its first line does not know our cursor: a gap."""
        child = self._child
        self.close()
        self.more, self._wait = False, _TURNS_BETWEEN_STARTS
        if not (child and child.returncode > 0 and self._fresh and self._place):
            return []
        self._place, self._known = "", self._seq
        return [Gap(self._seq + 1, None)]

    def _record(self, line: bytes) -> Record | None:
        entry = _entry(line)
        if entry.get("_TRANSPORT") != "kernel" or entry.get("SYSLOG_FACILITY", "0") != "0":
            return None
        self._fresh = False
        usec = _number(entry.get("_SOURCE_MONOTONIC_TIMESTAMP")) or _number(
            entry.get("__MONOTONIC_TIMESTAMP")
        )
        if usec * _STEP <= self._known:
            return None  # read before, now seen again from the start of the boot
        self._known = -1
        self._seq = max(self._seq + 1, usec * _STEP)
        self._place = str(entry.get("__CURSOR", ""))
        return Record(self._seq, usec, _text(entry.get("MESSAGE")), self._place)


def _entry(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _number(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= 18 else 0


def _text(value: object) -> str:
    """MESSAGE is text, or a list of byte values when it holds control characters."""
    if isinstance(value, list):
        return bytes(byte & 0xFF for byte in value if isinstance(byte, int)).decode(errors="replace")
    return value if isinstance(value, str) else ""
