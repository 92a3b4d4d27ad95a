"""/metrics and /healthz of the agent, from the standard library's server."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from remediator.observe.health import Health

_IDLE_S = 5.0


class Server(ThreadingHTTPServer):
    """Serves one registry and the health of one loop; `port` is the one that was bound."""

    daemon_threads = True

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Health) -> None:
        super().__init__((host, port), _Handler)
        self.registry = registry
        self.health = health

    @property
    def port(self) -> int:
        """The TCP port it listens on."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Serve from a daemon thread; `shutdown` and `server_close` end it."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a GET."""
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, b"".join(map(_text, self.registry.collect()))
        if path == "/healthz":
            report = self.health.live()
            return 200 if report.ok else 503, "text/plain", "\n".join((*report.lines, "")).encode()
        return 404, "text/plain", b"only /metrics and /healthz are here\n"


class _One(Collector):
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> tuple[Metric]:
        return (self._family,)


def _text(family: Metric) -> bytes:
    """A family at a time: the lines of all at once would be a megabyte that stays."""
    return generate_latest(_One(family))


class _Handler(BaseHTTPRequestHandler):
    timeout = _IDLE_S
    server: Server

    def do_GET(self) -> None:
        status, kind, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Scrapes and probes are no news."""
