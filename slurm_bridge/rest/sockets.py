"""Kept connections whose every wait ends at one deadline, over TCP or a Unix socket.

A library's time-outs are per read: a server that sends a byte a second would hold a worker for ever. And its
pool takes as much of the processor again as the request itself, right before a DRAIN.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from http.client import HTTP_PORT, HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import unquote, urlsplit

from remediator.clock import Clock
from remediator.errors import BadInput

POOL_SIZE = 16


class Deadline(threading.local):
    """When the call on this thread must be over, in `Clock.steady` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def start(self, seconds: float) -> None:
        """Begin a call that may take `seconds`."""
        self._until = self._clock.steady() + seconds

    def left(self) -> float:
        """Seconds left; TimeoutError when there are none."""
        left = self._until - self._clock.steady()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left


class _Socket(socket.socket):
    deadline: Deadline

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.deadline.left())
        return super().recv_into(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(self.deadline.left())
        super().sendall(*args, **kwargs)


class Connection(HTTPConnection):
    """One kept connection; who has taken it has it for itself, and no request opens it anew."""

    auto_open = 0

    def __init__(self, host: str, port: int, path: str, deadline: Deadline) -> None:
        super().__init__(host, port)
        self._path = path
        self._deadline = deadline

    def connect(self) -> None:
        """Open it within the deadline; OSError when the server takes none."""
        plain = self._open()
        sock = _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.deadline = self._deadline
        self.sock = sock

    def _open(self) -> socket.socket:
        if not self._path:
            sock = socket.create_connection((self.host, self.port), self._deadline.left())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self._deadline.left())
            sock.connect(self._path)
        except OSError:
            sock.close()
            raise
        return sock

    def is_alive(self) -> bool:
        """Whether the server has neither closed it nor sent what nobody asked for."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class Connections:
    """Connections to `http://host:port` or `http+unix://%2Frun%2Fslurmrestd.sock`, each for one exchange at a
    time; BadInput on another URL.
    """

    def __init__(self, url: str, deadline: Deadline) -> None:
        self._address = _address(url)
        self._deadline = deadline
        self._idle: deque[Connection] = deque()

    def take(self) -> Connection:
        """One that is open; OSError when the server takes none."""
        while (kept := self._pop()) is not None:
            if kept.is_alive():
                return kept
            kept.close()
        opened = Connection(*self._address, self._deadline)
        opened.connect()
        return opened

    def give_back(self, connection: Connection, answer: HTTPResponse) -> None:
        """Once the whole answer is read."""
        if answer.will_close or len(self._idle) >= POOL_SIZE:
            connection.close()
        else:
            self._idle.append(connection)

    def _pop(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None


def _address(url: str) -> tuple[str, int, str]:
    """Host, port and Unix socket path of a URL, or BadInput."""
    parts = urlsplit(url)
    if parts.scheme == "http+unix" and parts.netloc:
        return "localhost", HTTP_PORT, unquote(parts.netloc)
    if parts.scheme != "http" or not parts.hostname or parts.username or parts.path not in {"", "/"}:
        raise BadInput("slurm.url", "wants http://host:port or http+unix://%2Fpath%2Fto.sock")
    try:
        return parts.hostname, HTTP_PORT if parts.port is None else parts.port, ""
    except ValueError:
        raise BadInput("slurm.url", "the port is not a number from 0 to 65535") from None
