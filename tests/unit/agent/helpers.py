"""A controller that records pushes, and a node's files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from remediator.agent.settings import AgentSettings

XID79 = "NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
BOOT = "11111111-1111-1111-1111-111111111111"


def fault(pid: int) -> str:
    """A line that repeats no other: a fault of the program `pid`."""
    return f"NVRM: Xid (PCI:0000:4e:00): 31, pid={pid}, name=python, Ch 00000023, intr 00000000."


class Controller(ThreadingHTTPServer):
    """A real HTTP server on a loopback port; `answer` decides the status of each push."""

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], int] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer or (lambda _: 202)
        self.pushes: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.peers: list[int] = []
        self.arrived = threading.Condition()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def events(self) -> list[dict[str, Any]]:
        return [event for push in self.pushes for event in push["events"]]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 20) -> bool:
        with self.arrived:
            return self.arrived.wait_for(condition, seconds)

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that was killed resets its connection."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment an answer, or Nagle and delayed ACKs add 40 ms
    server: Controller

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.answer(body)
        with self.server.arrived:
            self.server.tokens.append(str(self.headers["Authorization"]))
            self.server.peers.append(self.client_address[1])
            if status < 300:
                self.server.pushes.append(body)
            self.server.arrived.notify_all()
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Node:
    """The files of one node: kernel log, boot id, token, state directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log" / "kmsg"
        self.log.parent.mkdir()
        self.log.touch()
        self.boot = root / "boot_id"
        self.boot.write_text(BOOT + "\n")
        self.token = root / "token"
        self.token.write_text("first\n")
        self.seq = 0
        (root / "sys" / "class").mkdir(parents=True, exist_ok=True)

    def settings(self, url: str, **changes: Any) -> AgentSettings:
        fields: dict[str, Any] = {
            "node": "gpu-0",
            "controller_url": url,
            "kernel_log": f"file:{self.log}",
            "boot_id_path": self.boot,
            "token_path": self.token,
            "state_dir": self.root / "state",
            "metrics_host": "127.0.0.1",
            "metrics_port": 0,
            "sysfs_root": self.root / "sys",
        }
        return AgentSettings.model_validate(fields | changes)

    def record(self, text: str, prio: int = 3) -> bytes:
        self.seq += 1
        return f"{prio},{self.seq},{self.seq * 1000},-;{text}\n SUBSYSTEM=pci\n".encode()

    def print(self, text: str, prio: int = 3) -> None:
        with self.log.open("ab") as file:
            file.write(self.record(text, prio))
