"""One connection to the pyslurm worker and the calls over it: JSON lines, one call at a time, never late.

libslurm can hang for minutes inside a call, so a worker that is late or talks nonsense is hung up on, which
kills it, and the next call gets another one. A killed worker sends nothing any more.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from remediator.clock import Clock
from remediator.errors import Ambiguous, GiveUp, Retry
from slurm_bridge.pyslurm.refusals import refusal

PROTOCOL = 1
_MAX_ANSWER = 256 * 2**20


class Channel:
    """Calls to the worker that listens at the Unix socket `path`."""

    def __init__(self, path: Path, token: Callable[[], str], clock: Clock) -> None:
        self._path = path
        self._token = token
        self._clock = clock
        self._busy = threading.Lock()
        self._socket: socket.socket | None = None
        self._pending = b""
        self._last_id = 0
        self._ends = 0.0

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        doing: str,
        *,
        deadline: float,
        write: bool,
        harmless: int | None = None,
    ) -> Any:
        """The operation's result, None for the errno `harmless`; `deadline` covers waiting for another call
        and the start of a worker too.
        """
        ends = self._clock.steady() + deadline
        if not self._busy.acquire(timeout=max(deadline, 0)):
            raise Retry(f"{doing}: the pyslurm worker is busy with another call")
        try:
            self._ends = ends
            answer = self._exchange(operation, arguments, doing, write=write)
        finally:
            self._busy.release()
        error = answer.get("error")
        if error is None or (harmless is not None and error.get("errno") == harmless):
            return answer.get("result")
        raise refusal(error, doing, self._token, write=write)

    def close(self) -> None:
        """End the worker's process."""
        with self._busy:
            self._hang_up()

    def _exchange(
        self, operation: str, arguments: Mapping[str, Any], doing: str, *, write: bool
    ) -> dict[str, Any]:
        token = self._token()
        self._start(doing)
        self._last_id += 1
        left = self._left()
        request = {"id": self._last_id, "op": operation, "args": arguments, "token": token, "deadline": left}
        self._send(json.dumps(request).encode() + b"\n", doing)
        try:
            return self._answer()
        except _Lost as why:
            self._lost(doing, str(why), write=write)

    def _start(self, doing: str) -> None:
        """A worker that has said it is ready; nothing has been asked of it yet, so every failure is Retry."""
        if self._socket is not None and _is_open(self._socket):
            return
        self._hang_up()
        self._socket, self._pending = self._connect(doing), b""
        try:
            hello = self._line()
        except _Lost as why:
            self._lost(doing, f"did not start: {why}", write=False)
        if hello.get("ready") != PROTOCOL:
            self._hang_up()
            raise GiveUp(f"{doing}: the pyslurm worker is of another release: take this release's image")

    def _connect(self, doing: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(self._left(), 0.001))
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            why = error.strerror or error
            raise Retry(f"{doing}: no pyslurm worker answers at {self._path}: {why}") from None
        return connection

    def _send(self, line: bytes, doing: str) -> None:
        """A worker acts on whole lines only, so a line that does not get through had no effect."""
        try:
            self._timed().sendall(line)
        except (OSError, _Lost):
            self._lost(doing, "takes no request", write=False)

    def _answer(self) -> dict[str, Any]:
        """The answer to the last request; one to another request is as bad as none."""
        answer = self._line()
        if answer.get("id") != self._last_id:
            raise _Lost("answered another request")
        is_error = isinstance(answer.get("error"), dict)
        if is_error == ("result" in answer):
            raise _Lost("answered neither a result nor an error")
        return answer

    def _line(self) -> dict[str, Any]:
        parts = [self._pending]
        size = len(self._pending)
        while b"\n" not in parts[-1]:
            part = self._receive()
            size += len(part)
            if size > _MAX_ANSWER:
                raise _Lost("answered too much")
            parts.append(part)
        line, _, self._pending = b"".join(parts).partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError:
            raise _Lost("answered nonsense") from None
        if not isinstance(found, dict):
            raise _Lost("answered nonsense")
        return found

    def _receive(self) -> bytes:
        try:
            part = self._timed().recv(2**20)
        except TimeoutError:
            raise _Lost("did not answer in time") from None
        except OSError:
            raise _Lost("died") from None
        if not part:
            raise _Lost("died")
        return part

    def _timed(self) -> socket.socket:
        left = self._left()
        if self._socket is None or left <= 0:
            raise _Lost("did not answer in time")
        self._socket.settimeout(left)
        return self._socket

    def _left(self) -> float:
        return self._ends - self._clock.steady()

    def _lost(self, doing: str, why: str, *, write: bool) -> NoReturn:
        self._hang_up()
        text = f"{doing}: the pyslurm worker {why}"
        raise Ambiguous(text) if write else Retry(text)

    def _hang_up(self) -> None:
        """Which ends the worker's process at once, whatever it is doing."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _is_open(connection: socket.socket) -> bool:
    """False when the other end is gone, or has said something unasked."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class _Lost(Exception):
    """The worker cannot be used any more; the text says why."""
