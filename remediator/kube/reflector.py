"""A live copy of one collection: LIST, then WATCH, for ever; it heals whatever the server does."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Generic, Protocol, TypeVar

from remediator.clock import Clock
from remediator.errors import RemediatorError, Retry
from remediator.kube.errors import Gone, Json
from remediator.kube.session import Listing, Stream
from remediator.kube.watch import Event, Malformed, events


class Tracked(Protocol):
    """What a reflector must know of an object; `key` is its name, with the namespace if it has one."""

    @property
    def uid(self) -> str:
        """metadata.uid"""

    @property
    def resource_version(self) -> str:
        """metadata.resourceVersion"""

    @property
    def key(self) -> str:
        """`name`, or `namespace/name`."""


T = TypeVar("T", bound=Tracked)


class Source(Protocol):
    """The part of Session a reflector uses."""

    def pages(
        self, path: str, *, deadline: float, params: Mapping[str, str] | None = None
    ) -> Iterator[Listing]:
        """A consistent list, page by page."""

    def watch(self, path: str, *, params: Mapping[str, str], read_timeout: float) -> Stream:
        """An open watch."""


@dataclass(frozen=True)
class Pace:
    """Seconds: how long a watch lives, may be silent, counts as healthy; backoff; full resync."""

    server_timeout: float = 300.0
    read_timeout: float = 90.0
    list_deadline: float = 60.0
    healthy: float = 30.0
    backoff_min: float = 1.0
    backoff_max: float = 30.0
    resync: float = 600.0


class Reflector(Generic[T]):
    """`parse` returns None for an object it refuses. `on_change(old, new)` runs in the watch thread,
    after the cache changed: (None, new) added, (old, new) changed, (old, None) removed.
    `pause` waits for the seconds given or until stop; tests put virtual time there.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        parse: Callable[[Json], T | None],
        *,
        clock: Clock,
        random: Random,
        on_change: Callable[[T | None, T | None], None] | None = None,
        params: Mapping[str, str] | None = None,
        pace: Pace | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._source, self._path, self._parse = source, path, parse
        self._clock, self._random, self._pace = clock, random, pace or Pace()
        self._on_change = on_change
        self._params = dict(params or {})
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self._lock = threading.Lock()
        self._cache: dict[str, T] = {}
        self._objects: tuple[T, ...] | None = None
        self._keys: dict[str, str] = {}
        self._version = ""
        self._listed = self._heard = float("-inf")
        self._failures = 0
        self._stream: Stream | None = None
        self.synced = threading.Event()
        self.reconnects: Counter[str] = Counter()
        self.refused = 0

    def items(self) -> dict[str, T]:
        """A copy of the cache, by uid."""
        with self._lock:
            return dict(self._cache)

    def objects(self) -> tuple[T, ...]:
        """All objects; the very same tuple until one changes, so that what is derived from it can be kept."""
        with self._lock:
            if self._objects is None:
                self._objects = tuple(self._cache.values())
            return self._objects

    def named(self, key: str) -> T | None:
        """The object that bears this name now."""
        with self._lock:
            return self._cache.get(self._keys.get(key, ""))

    def age(self) -> float:
        """Seconds since the server was last heard (list, event or bookmark); infinite before the first."""
        return self._clock.steady() - self._heard

    def run(self) -> None:
        """Follow the server until `stop`; errors are counted in `reconnects` and waited out."""
        while not self._stopping.is_set():
            began = self._clock.steady()
            reason, asked = self._follow()
            if self._stopping.is_set():
                return
            self.reconnects[reason] += 1
            self._pause(self._delay(self._clock.steady() - began, asked))

    def stop(self) -> None:
        """End `run`, also out of a stuck read; a connection attempt ends by its own timeout."""
        with self._lock:
            self._stopping.set()
            stream = self._stream
        if stream:
            stream.close()

    def _follow(self) -> tuple[str, float]:
        try:
            if not self._version or self._clock.steady() - self._listed >= self._pace.resync:
                self._relist()
            self._watch()
        except Gone as error:
            self._version = ""
            return "gone", error.after
        except Malformed as error:
            if self._failures:  # again at once: this very event is the problem, step over it by a list
                self._version = ""
            return "malformed", error.after
        except Retry as error:
            return "lost", error.after
        except RemediatorError:
            return "refused", 0.0
        return "closed", 0.0

    def _delay(self, lived: float, asked: float) -> float:
        if lived >= self._pace.healthy:
            self._failures = 0
            return self._random.uniform(0.0, self._pace.backoff_min)
        self._failures = min(self._failures + 1, 16)
        ceiling = min(self._pace.backoff_max, self._pace.backoff_min * 2**self._failures)
        return max(asked, self._random.uniform(self._pace.backoff_min, ceiling))

    def _relist(self) -> None:
        fresh: dict[str, T] = {}
        version = ""
        for page in self._source.pages(
            self._path, deadline=self._pace.list_deadline, params=self._params
        ):  # one page of raw objects in memory at a time
            version = version or page.resource_version
            fresh |= {item.uid: item for raw in page.items if (item := self._parsed(raw)) is not None}
        if not version:
            raise Retry("the list carries no resourceVersion")
        for uid in self.items().keys() - fresh.keys():
            self._remove(uid)
        for item in fresh.values():
            self._put(item)
        self._version = version
        self._listed = self._heard = self._clock.steady()
        self.synced.set()

    def _watch(self) -> None:
        stream = self._source.watch(
            self._path, params=self._watch_params(), read_timeout=self._pace.read_timeout
        )
        with self._lock:
            self._stream = stream
            stopping = self._stopping.is_set()
        if stopping:
            stream.close()
        for event in events(stream.chunks(), self._path):
            self._apply(event)

    def _watch_params(self) -> dict[str, str]:
        seconds = self._pace.server_timeout * self._random.uniform(0.8, 1.2)
        return {
            **self._params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }

    def _apply(self, event: Event) -> None:
        if event.kind != "BOOKMARK" and (item := self._parsed(event.obj)) is not None:
            if event.kind == "DELETED":
                self._remove(item.uid)
            else:
                self._put(item)
        self._version = event.resource_version or self._version
        self._heard = self._clock.steady()

    def _parsed(self, raw: Json) -> T | None:
        item = self._parse(raw)
        if item is None:
            self.refused += 1
        return item

    def _put(self, item: T) -> None:
        with self._lock:
            old = self._cache.get(item.uid)
            self._cache[item.uid] = item
            self._objects = None
            self._keys[item.key] = item.uid
        if self._on_change and (old is None or old.resource_version != item.resource_version):
            self._on_change(old, item)

    def _remove(self, uid: str) -> None:
        with self._lock:
            old = self._cache.pop(uid, None)
            self._objects = None
            if old is not None and self._keys.get(old.key) == uid:
                del self._keys[old.key]
        if self._on_change and old is not None:
            self._on_change(old, None)
