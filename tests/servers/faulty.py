"""A proxy before a real server that gives wrong answers as told; the others pass, watches as they come."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

LONGEST_S = 20.0  # more than any deadline of ours
_OWN_HEADERS = {"connection", "content-length", "transfer-encoding", "host"}

Connect = Callable[[], HTTPConnection]


@dataclass(frozen=True)
class Asked:
    """One request: `watch` when its answer does not end by itself."""

    method: str
    path: str
    watch: bool


@dataclass(frozen=True)
class Passed:
    """The real server's whole answer."""

    status: int
    body: bytes


Answer = Callable[["Exchange"], None]
Choose = Callable[[Asked], str | None]
Told = Callable[[Asked, Passed], None]


def nobody(_asked: Asked) -> str | None:
    """Every answer passes."""
    return None


def untold(_asked: Asked, _passed: Passed) -> None:
    """Nobody listens."""


@dataclass
class Proxy:
    """`choose` names the wrong answer to a request, or None; `told` hears of each whole answer before it is
    passed on; `given` counts the wrong answers by name and path.
    """

    connect: Connect
    wrong: dict[str, Answer]
    choose: Choose = nobody
    told: Told = untold
    given: Counter[tuple[str, str]] = field(default_factory=Counter)
    ending: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    _open: dict[socket.socket, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, ending: str) -> int:
        """How often this wrong answer was given to requests whose path ends so."""
        with self._lock:
            return sum(
                n for (given, path), n in self.given.items() if given == name and path.endswith(ending)
            )

    def watched(self) -> set[str]:
        """The paths of which a watch passes through at present."""
        with self._lock:
            return set(self._open.values())

    def hang_up(self) -> None:
        """End all watches that pass through, as a restarted server would."""
        with self._lock:
            open_now = list(self._open)
        for one in open_now:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def note(self, name: str, path: str) -> None:
        """A wrong answer is about to be given."""
        with self._lock:
            self.given[name, path] += 1

    @contextmanager
    def streaming(self, upstream: socket.socket, path: str) -> Iterator[None]:
        """While a watch passes through."""
        with self._lock:
            self._open[upstream] = path
        try:
            yield
        finally:
            with self._lock:
                self._open.pop(upstream, None)


@contextmanager
def listening(proxy: Proxy, host: str, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """The proxy serves on a port of `host`, which it is told, until the block ends."""
    server = _Server((host, 0), type("Handler", (Exchange,), {"proxy": proxy}))
    if tls is not None:
        # The handshake comes with the first read, in the thread of its connection.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ending.set()
        server.shutdown()
        server.server_close()
        proxy.hang_up()
        thread.join(10)


def plain(host: str, port: int) -> Connect:
    """Connections to a server that speaks HTTP."""
    return lambda: HTTPConnection(host, port, timeout=60)


def secure(host: str, port: int, context: ssl.SSLContext) -> Connect:
    """Connections to a server that speaks HTTPS; watches may be silent for minutes."""
    return lambda: HTTPSConnection(host, port, timeout=600, context=context)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken pipes are a proxy's trade, and more so this one's."""


class Exchange(BaseHTTPRequestHandler):
    """One connection to the proxy; the wrong answers are made with its methods."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: Proxy
    asked: Asked
    _body: bytes

    def handle_any(self) -> None:
        """Read the request whole, then pass it on or give the wrong answer."""
        self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        self.asked = Asked(self.command, parts.path, "watch=1" in parts.query.split("&"))
        name = self.proxy.choose(self.asked)
        if name is not None:
            self.proxy.note(name, parts.path)
        try:
            (self.proxy.wrong[name] if name is not None else pass_on)(self)
        except (OSError, HTTPException):
            self.drop()  # as the real server did, or because the client has gone

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 names http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        """Quiet."""

    def ask(self) -> HTTPResponse:
        """The real server's answer, not read yet."""
        upstream = self.proxy.connect()
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _OWN_HEADERS}
        upstream.request(self.command, self.path, self._body or None, headers)
        self._upstream = upstream
        return upstream.getresponse()

    def whole(self) -> Passed:
        """The real server's whole answer."""
        response = self.ask()
        try:
            return Passed(response.status, response.read())
        finally:
            self._upstream.close()

    def give(self, status: int, body: bytes, *, announced: int | None = None) -> None:
        """An answer whose length is `announced`, whatever it is."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = announced is not None

    def stream(self) -> None:
        """The head of an answer of unknown length."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, raw: bytes) -> None:
        """A piece of it; an empty one ends it."""
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()

    def drop(self) -> None:
        """Not a byte."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def pass_stream(self) -> None:
        """A watch as it comes, until either side ends it."""
        response = self.ask()
        if response.status != 200:
            self.give(response.status, response.read())
            self._upstream.close()
            return
        self.stream()
        try:
            with self.proxy.streaming(self._upstream.sock, self.asked.path):
                while chunk := response.read1(64 * 1024):
                    self.chunk(chunk)
        finally:
            self._upstream.close()
            self.drop()


def pass_on(exchange: Exchange) -> None:
    """The real server's answer as it is."""
    if exchange.asked.watch:
        exchange.pass_stream()
        return
    passed = exchange.whole()
    exchange.proxy.told(exchange.asked, passed)
    exchange.give(passed.status, passed.body)


def dropped(exchange: Exchange) -> None:
    """The connection ends without a byte."""
    exchange.drop()


def silent(exchange: Exchange) -> None:
    """Nothing comes, for longer than anybody waits."""
    exchange.proxy.ending.wait(LONGEST_S)
    exchange.drop()


def slow(exchange: Exchange) -> None:
    """The answer comes byte by byte, for longer than anybody waits."""
    body = exchange.whole().body
    exchange.send_response(200)
    exchange.send_header("Content-Length", str(len(body) + 1000))
    exchange.end_headers()
    for at in range(len(body)):
        exchange.wfile.write(body[at : at + 1])
        if exchange.proxy.ending.wait(LONGEST_S / 200):
            break
    exchange.drop()


def nonsense(exchange: Exchange) -> None:
    """What a captive portal says."""
    exchange.give(200, b"<html><body>Welcome, please sign in</body></html>")


def broken(exchange: Exchange) -> None:
    """HTTP 500 without a word."""
    exchange.give(500, b"")


def cut(exchange: Exchange) -> None:
    """Half of the answer, then the connection ends."""
    body = exchange.whole().body
    exchange.give(200, body[: len(body) // 2], announced=len(body))
    exchange.drop()


def short(exchange: Exchange) -> None:
    """Half of the answer under a length that says it is whole."""
    body = exchange.whole().body
    exchange.give(200, body[: len(body) // 2])


def with_errors(exchange: Exchange) -> None:
    """slurmrestd's HTTP 200 whose `errors` say that it failed."""
    body = _object(exchange.whole())
    error = {"description": "Failure", "error_number": 0, "error": "No error", "source": "x"}
    exchange.give(200, json.dumps({**body, "errors": [error]}).encode())


def emptied(exchange: Exchange) -> None:
    """A good answer of slurmrestd that names nothing."""
    body = _object(exchange.whole())
    nothing: dict[str, list[object]] = {key: [] for key in ("nodes", "jobs", "reservations") if key in body}
    exchange.give(200, json.dumps({**body, **nothing}).encode())


def failed(exchange: Exchange) -> None:
    """The API server's HTTP 200 that holds a failure."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "etcd"}
    exchange.give(200, json.dumps(status).encode())


def gone(exchange: Exchange) -> None:
    """A watch that has to be begun anew."""
    exchange.stream()
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    exchange.chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
    exchange.chunk(b"")


def garbled(exchange: Exchange) -> None:
    """A watch whose line is no event."""
    exchange.stream()
    exchange.chunk(b'\x00\xff {"type":"ADDED","object":{"metadata":{"na\n')
    exchange.chunk(b"")


def hanging(exchange: Exchange) -> None:
    """A watch that is open and tells nothing."""
    exchange.stream()
    exchange.proxy.ending.wait(LONGEST_S)
    exchange.drop()


def _object(passed: Passed) -> dict[str, Any]:
    found = json.loads(passed.body)
    assert isinstance(found, dict)
    return found


SLURM: dict[str, Answer] = {
    one.__name__: one for one in (dropped, silent, slow, nonsense, broken, cut, short, with_errors, emptied)
}
KUBE: dict[str, Answer] = {
    one.__name__: one
    for one in (dropped, silent, nonsense, broken, cut, short, failed, gone, garbled, hanging)
}
