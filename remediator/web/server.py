"""Serve the HTTP application from a thread of its own."""

from __future__ import annotations

import socket
import threading

import uvicorn
from starlette.applications import Starlette

from remediator.errors import BadInput, GiveUp

START_S = 10.0
STOP_S = 10.0
KEEP_ALIVE_S = 75  # longer than an agent's heartbeat, so that its connection stays
MOST_CONNECTIONS = 10_000
LONGEST_HEADERS = 32 * 1024


class HttpServer:
    """An application on an address; `start` returns once it listens, `stop` once it has gone quiet."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server = _Server(_config(app))
        self._thread: threading.Thread | None = None

    def start(self) -> int:
        """Listen and serve; the port that was taken. BadInput when the address cannot be had."""
        listener = self._listen()
        self._thread = threading.Thread(
            target=self._server.serve_on, args=(listener,), name="http", daemon=True
        )
        self._thread.start()
        if not self._server.ready.wait(START_S) or not self._server.started:
            raise GiveUp("the HTTP server did not start; the log says why")
        port: int = listener.getsockname()[1]
        return port

    def stop(self) -> None:
        """Take no more requests, finish the open ones within a few seconds, and end the thread."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(STOP_S)
            self._server.force_exit = True

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self._port), family=family, backlog=1024)
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise BadInput(
                "http.port", f"cannot listen on {address} ({error.strerror}); set http.host and http.port"
            ) from None
        # Connections inherit it. asyncio would set it only for sockets made with an explicit protocol number,
        # and without it the answer's second segment waits 40 ms for the client's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener


class _Server(uvicorn.Server):
    """Uvicorn that tells another thread when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit`; never leaves `start` waiting."""
        try:
            self.run(sockets=[listener])
        finally:
            self.ready.set()
            listener.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening and say so."""
        await super().startup(sockets)
        self.ready.set()


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=5,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=LONGEST_HEADERS,
    )
