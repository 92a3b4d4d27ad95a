"""What a watch keeps of a fake API server's objects: nothing is parsed twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from remediator.kube.errors import Json

View = TypeVar("View")


class Parsed(Generic[View]):
    """One view of each object, parsed again only when the server holds another object at that path."""

    def __init__(self, parse: Callable[[Json], View | None]) -> None:
        self._parse = parse
        self._known: dict[str, tuple[Json, View]] = {}

    def of(self, path: str, raw: Json) -> View:
        """The object's view; one that cannot be parsed is the fake's fault."""
        known = self._known.get(path)
        if known is None or known[0] is not raw:
            view = self._parse(raw)
            assert view is not None
            known = self._known[path] = (raw, view)
        return known[1]


class Same(Generic[View]):
    """Hands out the same collection until one of the views in it is another one, as a watch cache does."""

    def __init__(self, read: Callable[[], Iterable[View]]) -> None:
        self._read = read
        self._last: list[View] = []

    def __call__(self) -> list[View]:
        """All views."""
        found, last = list(self._read()), self._last
        if len(found) != len(last) or any(old is not new for old, new in zip(last, found, strict=True)):
            self._last = found
        return self._last
