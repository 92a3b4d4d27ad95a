"""What a large cluster takes: memory per node, and how long alerts wait while a storm is judged."""

from __future__ import annotations

import json
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.bench.cluster import boot_id
from tests.bench.figures import Figure, Goal, milliseconds
from tests.bench.standin import TOKEN

SENDERS = 64
"""Connections on which alerts are sent; one that is due while all are busy waits, and its wait counts."""
CODES = (79, 48, 43, 31)
WARM = 100
JUDGED_S = 60.0
_TOKEN_BYTES = 1100  # as long as a projected token
_SPARE_FILES = 200
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How many nodes there are, and how many alerts come within how many seconds: half of the nodes are sick,
    and a node has four alerts.
    """

    nodes: int
    alerts: int
    seconds: float


FULL, QUICK = Size(5000, 10_000, 30.0), Size(500, 1000, 3.0)


def measure(folder: Path, tell: Tell, size: Size) -> list[Figure]:
    """Memory first, then the storm, on one stand-in of the controller."""
    _allow_files(size.nodes + _SPARE_FILES)
    with _stand_in(folder, size.nodes) as service:
        tell(f"{size.nodes} nodes are listed, then their agents connect")
        before, watched = _watches(service, size.nodes)
        with _agents(service.port, range(size.nodes)):
            figures = _memory(service, size.nodes, before, watched)
            tell(f"a storm of {size.alerts} alerts in {size.seconds:.0f} s")
            return figures + _storm(service, size)


class Service:
    """The stand-in's process: asked by words, answered by lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._answer()["port"])

    def ask(self, word: str) -> dict[str, Any]:
        """Its figures, after it has done what the word says."""
        if self._process.stdin is not None:
            print(word, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the stand-in of the controller has ended; its error is above")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def _stand_in(folder: Path, nodes: int) -> Iterator[Service]:
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=folder))
    command = [sys.executable, "-m", "tests.bench.standin", str(scratch), str(nodes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Service(process)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(scratch)


def _watches(service: Service, nodes: int) -> tuple[float, float]:
    """KiB of the process before it knows any node, and once it watches all."""
    door = Door(service.port)
    for number in range(WARM):
        door.alert(f"stranger-{number}", 43, number)
    with _agents(service.port, range(nodes, nodes + WARM)):  # what answering takes is there from now on
        before = service.ask("size")["kib"]
    return before, service.ask("watch")["kib"]


def _memory(service: Service, nodes: int, before: float, watched: float) -> list[Figure]:
    """By how much the process grows for each node; what it takes without any is no part of it."""
    after = service.ask("size")
    if after["heard"] < nodes:
        raise RuntimeError(f"{after['heard']} of {nodes} agents are heard")
    grown = (watched - before) / nodes, (after["kib"] - before) / nodes
    return [
        Figure(f"memory per node of {nodes}: watches", "KiB", (grown[0],)),
        Figure(f"memory per node of {nodes}: watches, its agent's connection", "KiB", (grown[1],),
               goal=Goal(p99=50)),
    ]  # fmt: skip


@contextmanager
def _agents(port: int, numbers: range) -> Iterator[None]:
    """One connection each that stays, as an agent's does, and one heartbeat on it."""
    agents = [_connect(port, number) for number in numbers]
    try:
        yield
    finally:
        for agent in agents:
            agent.close()


def _connect(port: int, number: int) -> socket.socket:
    node = f"gpu-{number}"
    agent = socket.create_connection(("127.0.0.1", port), timeout=30)
    token = node.ljust(_TOKEN_BYTES, ".")
    body = json.dumps({"version": 1, "node": node, "boot_id": boot_id(node), "events": []})
    agent.sendall(
        f"POST /v1/signals HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    if b" 200 " not in agent.recv(4096):
        raise RuntimeError(f"the heartbeat of {node} was not taken")
    return agent


def _storm(service: Service, size: Size) -> list[Figure]:
    """Alerts one by one, as Alertmanager sends them ungrouped; each wait counts from when it was due."""
    before, alerts = service.ask("size")["rows"], size.alerts
    storm = Storm(service.port, size)
    storm.run()
    until = time.monotonic() + JUDGED_S
    while (found := service.ask("size"))["judged"] < before + alerts and time.monotonic() < until:
        time.sleep(0.1)
    what = f"storm of {alerts} alerts in {size.seconds:g} s"
    lost = alerts - (found["rows"] - before)
    return [
        Figure(f"{what}: until answered", "ms", milliseconds(storm.took), goal=Goal(p99=250)),
        Figure(f"{what}: not stored", "signals", (lost,), goal=Goal(p99=0)),
        Figure(f"{what}: not judged a minute later", "signals", (before + alerts - found["judged"],),
               goal=Goal(p99=0)),
    ]  # fmt: skip


@dataclass
class Storm:
    """Senders that share one schedule."""

    port: int
    size: Size
    took: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Return when the last one is answered."""
        numbers = iter(range(self.size.alerts))
        began = time.perf_counter() + 0.2
        threads = [threading.Thread(target=self._send, args=(numbers, began)) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, numbers: Iterator[int], began: float) -> None:
        door, sick = Door(self.port), self.size.nodes // 2
        for number in numbers:  # an iterator's next is one step of the interpreter: nobody gets the same
            due = began + number * self.size.seconds / self.size.alerts
            time.sleep(max(0.0, due - time.perf_counter()))
            door.alert(f"gpu-{number % sick}", CODES[number // sick % len(CODES)], number)
            self.took.append(time.perf_counter() - due)


class Door:
    """The webhook, on a kept connection."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection(f"127.0.0.1:{port}", timeout=30)

    def alert(self, node: str, xid: int, number: int) -> None:
        """One firing alert, sent again until it is taken, as Alertmanager does."""
        labels = {
            "alertname": "GpuXidInKernelLog", "route": "remediator", "witness": "own-counters", "node": node,
            "boot_id": boot_id(node), "xid": str(xid), "pci": "0000:18:00", "episode": str(number),
        }  # fmt: skip
        began = datetime.now(UTC).isoformat()
        body = {"version": "4", "alerts": [{"status": "firing", "labels": labels, "startsAt": began}]}
        while not self._sent(json.dumps(body)):
            time.sleep(0.05)

    def _sent(self, body: str) -> bool:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            self._connection.request("POST", "/v1/alerts", body, headers)
            answer = self._connection.getresponse()
            return answer.status == 200 and json.loads(answer.read()).get("accepted") == 1
        except (OSError, HTTPException):
            self._connection.close()
            return False


def _allow_files(count: int) -> None:
    """A connection is a file on both sides; the stand-in inherits what is allowed here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
