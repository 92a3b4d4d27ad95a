"""HTTP servers that misbehave on purpose, in the ways an API server and the net before it do."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3
from kubernetes.client.configuration import Configuration

from remediator.clock import Clock, SystemClock
from remediator.kube.credentials import Credentials
from remediator.kube.session import Session

Answer = Callable[["Handler"], None]
BOOKMARK_S = 0.05


class Handler(BaseHTTPRequestHandler):
    """One connection; what to do with a request is the server's `answer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def handle_any(self) -> None:
        """Read the request whole, then answer as scripted."""
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        self.server.requests.append((self.command, self.path, dict(self.headers), self.body))
        with suppress(OSError):
            self.server.answer(self)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 names http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        """Silent."""

    def reply(self, status: int, body: object, **headers: str) -> None:
        """A whole JSON (or raw bytes) answer."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def reset(self) -> None:
        """Close with a TCP reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def begin_stream(self) -> None:
        """Headers of a chunked answer."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, raw: bytes) -> None:
        """One chunk; empty ends the answer."""
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()

    def event(self, kind: str, obj: object) -> None:
        """One watch line."""
        self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")


class Server(ThreadingHTTPServer):
    """`answer` handles each request; `requests` records (method, path, headers, body)."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.ending = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken pipes are this server's trade."""

    @property
    def url(self) -> str:
        """Address of this server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def session(self, clock: Clock | None = None, token: Callable[[], str] = lambda: "t0") -> Session:
        """A session that believes this is the API server; `token` is asked at each (re)load."""

        def load() -> Credentials:
            configuration = Configuration()
            configuration.host = self.url
            configuration.api_key = {"BearerToken": f"Bearer {token()}"}
            return Credentials(configuration, urllib3.PoolManager())

        return Session(load, clock or SystemClock())


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Run the server in a thread while the block lasts."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()


class Collection:
    """The truth behind a WatchServer: objects, their history, and how long the history reaches back."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.version = 10
        self.objects: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0
        self._uids = 0

    def set(self, name: str) -> None:
        """Create or touch an object."""
        with self.lock:
            self.version += 1
            old = self.objects.get(name)
            self._uids += old is None
            uid = old["metadata"]["uid"] if old else f"u{self._uids}"
            obj = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(self.version)}}
            self.objects[name] = obj
            self._record("MODIFIED" if old else "ADDED", obj)

    def drop(self, name: str) -> None:
        """Delete an object if it is there."""
        with self.lock:
            old = self.objects.pop(name, None)
            if old is None:
                return
            self.version += 1
            meta = {**old["metadata"], "resourceVersion": str(self.version)}
            self._record("DELETED", {"metadata": meta})

    def replace(self, name: str) -> None:
        """Another object under the same name."""
        self.drop(name)
        self.set(name)

    def compact(self) -> None:
        """Forget the history: older watches get 410."""
        with self.lock:
            self.oldest = self.version

    def truth(self) -> dict[str, str]:
        """uid -> resourceVersion."""
        with self.lock:
            return {o["metadata"]["uid"]: o["metadata"]["resourceVersion"] for o in self.objects.values()}

    def _record(self, kind: str, obj: dict[str, Any]) -> None:
        self.log.append((self.version, kind, obj))
        self.lock.notify_all()


FAULTS = (
    "gone-status",
    "gone-event",
    "cut-at-once",
    "cut-after-one",
    "cut-in-line",
    "reset",
    "garbage",
    "no-event",
    "hang",
    "silent-bookmarks",
    "throttled",
    "error-500",
    "list-500",
    "list-garbage",
)


class WatchServer(Server):
    """Serves a Collection; each fault in `faults` spoils one request, after them it behaves."""

    def __init__(self, collection: Collection, faults: list[str], page: int = 500) -> None:
        super().__init__(self._route)
        self.collection = collection
        self.faults = list(faults)
        self.page = page
        self.lists = self.watches = self.rounds = 0
        self._listed: dict[str, list[dict[str, Any]]] = {}

    def _route(self, handler: Handler) -> None:
        query = {key: values[0] for key, values in parse_qs(urlsplit(handler.path).query).items()}
        fault = self.faults[0] if self.faults else ""
        if "watch" in query:
            self.watches += 1
            if fault and not fault.startswith("list-"):
                self.faults.pop(0)
                self._spoil(handler, fault, int(query["resourceVersion"]))
            elif fault:
                handler.begin_stream()  # ends at once; the list comes round again
                handler.event("ERROR", {"code": 410})
                handler.chunk(b"")
            else:
                self._watch(handler, int(query["resourceVersion"]))
            return
        self.lists += 1
        if fault.startswith("list-"):
            self.faults.pop(0)
            handler.reply(*((500, {}) if fault == "list-500" else (200, b"{not json")))
        else:
            self._list(handler, query)

    def _list(self, handler: Handler, query: dict[str, str]) -> None:
        """As the real one: all pages of a list are of the moment of its first."""
        with self.collection.lock:
            now = [self.collection.objects[name] for name in sorted(self.collection.objects)]
            version, _, at = query.get("continue", f"{self.collection.version}/0").partition("/")
        items, start = self._listed.setdefault(version, now), int(at)
        end = start + min(self.page, int(query["limit"]))
        more = {"continue": f"{version}/{end}"} if end < len(items) else {}
        meta = {"resourceVersion": version, **more}
        handler.reply(200, {"metadata": meta, "items": items[start:end]})

    def _watch(self, handler: Handler, since: int) -> None:
        if since < self.collection.oldest:
            handler.reply(410, {"code": 410, "message": "too old"})
            return
        handler.begin_stream()
        round_ = self.rounds
        while not self.ending.is_set() and self.rounds == round_:
            with self.collection.lock:
                if not self._after(since):
                    self.collection.lock.wait(BOOKMARK_S)
                due, version = self._after(since), self.collection.version
            for at, kind, obj in due:
                handler.event(kind, obj)
                since = at
            if not due:
                handler.event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
        handler.chunk(b"")

    def hang_up(self) -> None:
        """End the open watches, as their timeout would."""
        with self.collection.lock:
            self.rounds += 1
            self.collection.lock.notify_all()

    def _after(self, since: int) -> list[tuple[int, str, dict[str, Any]]]:
        return [entry for entry in self.collection.log if entry[0] > since]

    def _spoil(self, handler: Handler, fault: str, since: int) -> None:
        if fault == "gone-status":
            return handler.reply(410, {"code": 410, "message": "too old"})
        if fault == "throttled":
            return handler.reply(429, {"code": 429}, Retry_After="7")
        if fault == "error-500":
            return handler.reply(500, b"oops")
        if fault == "reset":
            return handler.reset()
        handler.begin_stream()
        with self.collection.lock:
            due = self._after(since)
        getattr(self, "_" + fault.replace("-", "_"))(handler, due)
        return None

    def _gone_event(self, handler: Handler, due: list[Any]) -> None:
        handler.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})

    def _cut_at_once(self, handler: Handler, due: list[Any]) -> None:
        handler.chunk(b"")

    def _cut_after_one(self, handler: Handler, due: list[Any]) -> None:
        for _, kind, obj in due[:1]:
            handler.event(kind, obj)
        handler.reset()

    def _cut_in_line(self, handler: Handler, due: list[Any]) -> None:
        for _, kind, obj in due:
            handler.event(kind, obj)
        handler.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"cut","uid":"cut","resourceVe')
        handler.chunk(b"")

    def _garbage(self, handler: Handler, due: list[Any]) -> None:
        for _, kind, obj in due[:1]:
            handler.event(kind, obj)
        handler.chunk(b"\x00\xff not json\n")
        time.sleep(0.01)

    def _no_event(self, handler: Handler, due: list[Any]) -> None:
        handler.chunk(b'["a list"]\n{"type":"ADDED"}\n')

    def _hang(self, handler: Handler, due: list[Any]) -> None:
        self.ending.wait(10)

    def _silent_bookmarks(self, handler: Handler, due: list[Any]) -> None:
        """An object appears, its event is lost, and a bookmark runs ahead of it."""
        self.collection.set("unheard")
        with self.collection.lock:
            version = self.collection.version
        handler.event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
        handler.chunk(b"")
