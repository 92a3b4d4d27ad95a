"""Records of the kernel log as /dev/kmsg prints them: `prio,seq,usec,flags;text` and what may go wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(
    rb"(?P<prio>[0-9]{1,9}),(?P<seq>[0-9]{1,18}),(?P<usec>[0-9]{1,18}),[^;]{0,200};(?P<text>.*)", re.DOTALL
)
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_FACILITY_SHIFT = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the kernel: `seq` counts within a boot, `usec` since boot; `place` finds it again."""

    seq: int
    usec: int
    text: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records were lost: those from `first` on, `lost` of them (None when nobody can know)."""

    first: int
    lost: int | None


@dataclass(frozen=True, slots=True)
class Restarted:
    """The log began anew: what was read before belongs to an older boot."""


Item = Record | Gap | Restarted


def read_record(data: bytes, place: str = "") -> Record | None:
    """One record without its continuation lines; None when it is malformed or not the kernel's own.

    Programs may write to /dev/kmsg too; the kernel files their lines under another facility than 0.
    """
    match = _HEADER.match(data)
    if match is None or int(match["prio"]) >> _FACILITY_SHIFT:
        return None
    return Record(int(match["seq"]), int(match["usec"]), unescape(match["text"]), place)


def sequence(data: bytes) -> int | None:
    """The sequence number of a record of any facility."""
    match = _HEADER.match(data)
    return int(match["seq"]) if match else None


def microseconds(data: bytes) -> int | None:
    """The time since boot of a record of any facility."""
    match = _HEADER.match(data)
    return int(match["usec"]) if match else None


def unescape(text: bytes) -> str:
    r"""Text with the kernel's `\xNN` escapes undone; bytes that are no UTF-8 become replacement marks."""
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text).decode(errors="replace")
