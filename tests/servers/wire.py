"""A TCP server that answers HTTP as told: a script, or another server's answers with faults put in."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Request:
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What to send: `cut` bytes of the body at most, `pace` seconds between bytes, `raw` instead of all.

    `hold` seconds pass before anything is sent; `drop` closes the connection without a byte, `hang_up` after
    a whole answer that does not say so, `last` after one that does.
    """

    status: int = 200
    body: bytes = b""
    cut: int | None = None
    pace: float = 0.0
    raw: bytes | None = None
    hold: float = 0.0
    drop: bool = False
    hang_up: bool = False
    last: bool = False


Answerer = Callable[[Request], Reply]


def reply_json(body: object, status: int = 200) -> Reply:
    """A whole JSON answer."""
    return Reply(status, json.dumps(body).encode())


class Wire:
    """Keeps what arrived in `requests`; `answer` may be replaced between calls."""

    def __init__(self, answer: Answerer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.hung_up = threading.Event()
        self.url = ""

    def count(self, method: str, ending: str) -> int:
        """Requests of this method whose path ends so."""
        return sum(1 for r in self.requests if r.method == method and r.path.endswith(ending))


@contextmanager
def wire(answer: Answerer) -> Iterator[Wire]:
    """A Wire listening on a loopback port until the block ends."""
    it = Wire(answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"it": it}))
    server.daemon_threads = True
    server.block_on_close = False
    it.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    it: Wire

    def setup(self) -> None:
        """One more connection."""
        self.it.connections += 1
        super().setup()

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quiet."""

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
        self.it.requests.append(request)
        reply = self.it.answer(request)
        time.sleep(reply.hold)
        try:
            self._give(reply)
        except OSError:
            self.close_connection = True  # the client gave up first: that is the test

    def _give(self, reply: Reply) -> None:
        self.close_connection = reply.drop or reply.raw is not None or reply.cut is not None
        if reply.drop:
            self.connection.shutdown(socket.SHUT_RDWR)
        elif reply.raw is not None:
            self.wfile.write(reply.raw)
        else:
            self._give_http(reply)
        if reply.hang_up:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            self.it.hung_up.set()

    def _give_http(self, reply: Reply) -> None:
        self.send_response(reply.status)
        if reply.last:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if not reply.pace:
            self.wfile.write(reply.body[: reply.cut])
            return
        for i in range(len(reply.body)):
            self.wfile.write(reply.body[i : i + 1])
            time.sleep(reply.pace)


class _UnixHTTPConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


def forward(path: Path, request: Request) -> Reply:
    """The answer of the real server behind a Unix socket."""
    connection = _UnixHTTPConnection(path)
    try:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in {"host", "connection"}}
        connection.request(request.method, request.path, request.body or None, headers)
        response = connection.getresponse()
        return Reply(response.status, response.read())
    finally:
        connection.close()
