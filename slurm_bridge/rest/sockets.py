"""Connections whose every wait ends at one deadline, over TCP or a Unix socket.

urllib3's timeouts are per read: a server that sends a byte a second would hold a worker for ever.
"""

from __future__ import annotations

import socket
import threading
from typing import Any
from urllib.parse import unquote, urlsplit

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError

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


class _Connection(HTTPConnection):
    deadline: Deadline
    path = ""

    def _new_conn(self) -> socket.socket:
        plain = self._open()
        sock = _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.deadline = self.deadline
        return sock

    def _open(self) -> socket.socket:
        self.timeout = self.deadline.left()
        if not self.path:
            return super()._new_conn()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.deadline.left())
            sock.connect(self.path)
        except OSError as error:
            sock.close()
            raise NewConnectionError(self, type(error).__name__) from error
        return sock


def open_pool(url: str, deadline: Deadline) -> HTTPConnectionPool:
    """A keep-alive pool for `http://host:port` or `http+unix://%2Frun%2Fslurmrestd.sock`."""
    host, port, path = _address(url)
    pool = HTTPConnectionPool(host, port, maxsize=POOL_SIZE)
    pool.ConnectionCls = type("Connection", (_Connection,), {"deadline": deadline, "path": path})
    return pool


def _address(url: str) -> tuple[str, int | None, str]:
    """Host, port and Unix socket path of a URL, or BadInput."""
    parts = urlsplit(url)
    if parts.scheme == "http+unix" and parts.netloc:
        return "localhost", None, unquote(parts.netloc)
    if parts.scheme != "http" or not parts.hostname or parts.username or parts.path not in {"", "/"}:
        raise BadInput("slurm.url", "wants http://host:port or http+unix://%2Fpath%2Fto.sock")
    try:
        return parts.hostname, parts.port, ""
    except ValueError:
        raise BadInput("slurm.url", "the port is not a number from 0 to 65535") from None
