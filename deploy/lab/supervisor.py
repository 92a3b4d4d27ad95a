"""The first process of a lab or a node: starts and signals parts, reaps orphans. Standard library only."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REVIVE_SECONDS = 0.5


@dataclass
class _Running:
    """One part: how it was started and what became of it."""

    argv: list[str]
    log: str
    env: dict[str, str]
    revive: bool
    pid: int = 0
    exit_code: int | None = None
    ended_at: float = 0.0
    starts: int = 0

    @property
    def alive(self) -> bool:
        return self.starts > 0 and self.exit_code is None


class Supervisor:
    """Serves one JSON request a connection. A killed part stays dead unless it was started with `revive`."""

    def __init__(self, socket_path: Path) -> None:
        self._parts: dict[str, _Running] = {}
        self._listener = _listen(socket_path)
        self._selector = selectors.DefaultSelector()
        wakeup, notify = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(wakeup, selectors.EVENT_READ)
        self._wakeup = wakeup

    def run(self) -> None:
        """Serve for ever."""
        while True:
            dead = any(part.revive and not part.alive for part in self._parts.values())
            for key, _ in self._selector.select(_REVIVE_SECONDS if dead else None):
                if key.fd == self._wakeup:
                    os.read(self._wakeup, 4096)
                    self._reap()
                else:
                    self._serve_one()
            for name in self._to_revive():
                self._start(name, self._parts[name])

    def _to_revive(self) -> list[str]:
        """Names of the parts that must run and ended long enough ago."""
        due = time.monotonic() - _REVIVE_SECONDS
        return [
            n for n, part in self._parts.items() if part.revive and not part.alive and part.ended_at <= due
        ]

    def _reap(self) -> None:
        by_pid = {part.pid: part for part in self._parts.values() if part.alive}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                by_pid[pid].exit_code = os.waitstatus_to_exitcode(status)
                by_pid[pid].ended_at = time.monotonic()

    def _serve_one(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(5.0)
        with connection:
            try:
                line = connection.makefile().readline()
                if line:  # a caller that only asks for our pid sends nothing
                    connection.sendall(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
            except OSError:
                return  # the caller went away: its request, if whole, was carried out

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._carry_out(request)
        except (OSError, KeyError, ValueError) as error:
            return {"error": f"{request.get('op')} {request.get('name', '')}: {error}"}

    def _carry_out(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._reap()
        match request["op"]:
            case "start":
                part = _Running(request["argv"], request["log"], request["env"], request["revive"])
                self._start(request["name"], part)
            case "again":
                self._start(request["name"], self._parts[request["name"]])
            case "signal":
                self._signal(request["name"], int(request["number"]))
            case "status":
                return {"parts": {name: _state(part) for name, part in self._parts.items()}}
            case other:
                raise ValueError(f"unknown request {other!r}")
        return {}

    def _start(self, name: str, part: _Running) -> None:
        before = self._parts.get(name)
        if before and before.alive:
            raise ValueError("it runs already")
        part.starts = before.starts if before else 0
        with Path(part.log).open("ab") as log:
            child = subprocess.Popen(
                part.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **part.env},
                start_new_session=True, cwd="/",
            )  # fmt: skip
        child.returncode = 0  # reaping is ours, in _reap
        part.pid, part.exit_code = child.pid, None
        part.starts += 1
        self._parts[name] = part

    def _signal(self, name: str, number: int) -> None:
        part = self._parts[name]
        if not part.alive:
            raise ValueError("it does not run")
        os.kill(part.pid, number)


def _listen(path: Path) -> socket.socket:
    """A listening socket at `path`, through a folder handle for long paths; complete before it is visible."""
    folder = os.open(path.parent, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        new = path.with_name(path.name + ".new")
        new.unlink(missing_ok=True)
        listener.bind(f"/proc/self/fd/{folder}/{new.name}")
        listener.listen(64)
        new.rename(path)
    finally:
        os.close(folder)
    return listener


def _state(part: _Running) -> dict[str, Any]:
    return {"pid": part.pid, "running": part.alive, "exit_code": part.exit_code, "starts": part.starts}
