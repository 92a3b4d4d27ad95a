"""Talks to the first process of a lab or of a node over its Unix socket."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deploy.lab.errors import LabError


@dataclass(frozen=True)
class Part:
    """One program that a first process starts: its name, command, log file and extra environment.
    `revive` starts it again when it ends unasked, as an init system does with a kubelet.
    """

    name: str
    argv: Sequence[str]
    log: str
    env: Mapping[str, str] = field(default_factory=dict)
    revive: bool = False


class Control:
    """A client of one first process."""

    def __init__(self, path: Path, what: str) -> None:
        """`path` of the socket; `what` names the lab or node in errors."""
        self.path = path
        self.what = what

    def first_pid(self) -> int | None:
        """The first process's id as the caller sees it; None when it does not run. It may be frozen."""
        try:
            with self._connect(5.0) as connection:
                credentials = connection.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
                )
        except OSError:
            return None
        pid: int = struct.unpack("3i", credentials)[0]
        return pid or None

    def start(self, part: Part) -> None:
        """Start a part; LabError when it runs already."""
        self._call({"op": "start", **asdict(part)})

    def again(self, name: str) -> None:
        """Start a part that has ended, with the command it had."""
        self._call({"op": "again", "name": name})

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a part."""
        self._call({"op": "signal", "name": name, "number": number})

    def parts(self) -> dict[str, dict[str, Any]]:
        """Every part ever started: pid there, running, exit code, number of starts."""
        answer: dict[str, dict[str, Any]] = self._call({"op": "status"})["parts"]
        return answer

    def running(self, name: str) -> bool:
        """True while the part runs."""
        return bool(self.parts().get(name, {}).get("running"))

    def stop(self, name: str, number: int, deadline: float = 15.0) -> None:
        """Signal a part and wait until it has ended."""
        if self.running(name):
            self.signal(name, number)
        wait_until(lambda: not self.running(name), deadline, f"{self.what}: {name} does not end")

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            with self._connect(10.0) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                data = connection.makefile().readline()
        except OSError as error:
            raise LabError(f"{self.what} does not answer ({error}): is it up?") from None
        answer: dict[str, Any] = json.loads(data or '{"error": "no answer"}')
        if "error" in answer:
            raise LabError(f"{self.what}: {answer['error']}")
        return answer

    def _connect(self, deadline: float) -> socket.socket:
        """A connection; through a folder handle, since a socket's own path may be at most 107 bytes long."""
        folder = os.open(self.path.parent, os.O_PATH)
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(deadline)
            try:
                connection.connect(f"/proc/self/fd/{folder}/{self.path.name}")
            except OSError:
                connection.close()
                raise
            return connection
        finally:
            os.close(folder)


def wait_until(holds: Callable[[], bool], deadline: float, failure: str, every: float = 0.05) -> None:
    """Return once `holds()` is true; LabError with the text `failure` after `deadline` seconds."""
    end = time.monotonic() + deadline
    while not holds():
        if time.monotonic() > end:
            raise LabError(f"{failure} after {deadline:.0f} s")
        time.sleep(every)
