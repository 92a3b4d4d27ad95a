"""Bytes of a watch to events; nothing the server says is trusted to be well formed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from remediator.errors import Retry
from remediator.kube.errors import Call, Json, answer_error

MAX_LINE = 16 * 1024 * 1024
CHANGES = ("ADDED", "MODIFIED", "DELETED")


class Malformed(Retry):
    """A line that is no watch event; the connection cannot be trusted further."""


@dataclass(frozen=True)
class Event:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK, with the raw object."""

    kind: str
    obj: Json

    @property
    def resource_version(self) -> str:
        """The version to watch on from, or empty when the object carries none."""
        meta = self.obj.get("metadata")
        return str(meta.get("resourceVersion") or "") if isinstance(meta, dict) else ""


def events(chunks: Iterable[bytes], path: str) -> Iterator[Event]:
    """Events of one watch. ERROR events raise what the same status would (410: Gone)."""
    for line in lines(chunks):
        event = _event(line)
        if event.kind == "ERROR":
            raise _error(event.obj, path)
        if event.kind in CHANGES or event.kind == "BOOKMARK":
            yield event


def lines(chunks: Iterable[bytes], limit: int = MAX_LINE) -> Iterator[bytes]:
    """Whole lines; a last line without its end was cut and is dropped."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(rest) > limit:
            raise Malformed("a watch line is too long")


def _event(line: bytes) -> Event:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed("a watch line is not JSON") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("object"), dict):
        raise Malformed("a watch line is no event")
    return Event(str(raw.get("type")), raw["object"])


def _error(status: Json, path: str) -> Exception:
    code = status.get("code")
    return answer_error(Call("watch", path, writes=False), code if isinstance(code, int) else 500, {}, status)
