"""The server's thread and its socket."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from remediator.clock import ManualClock
from remediator.errors import BadInput
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.web.app import create_app
from remediator.web.server import HttpServer


def server(host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    return HttpServer(create_app(health=Health(ManualClock()), metrics=Metrics()), host, port)


def test_server_listens_when_start_returns_and_is_gone_when_stop_returns() -> None:
    one = server()
    port = one.start()
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    one.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    assert [thread for thread in threading.enumerate() if thread.name == "http"] == []


def test_port_can_be_taken_again_at_once() -> None:
    one = server()
    port = one.start()
    httpx.get(f"http://127.0.0.1:{port}/healthz")
    one.stop()
    two = server(port=port)
    assert two.start() == port
    two.stop()


def test_taken_port_names_the_setting() -> None:
    one = server()
    port = one.start()
    with pytest.raises(
        BadInput, match=rf"http\.port: cannot listen on 127.0.0.1:{port} .*set http.host and http.port"
    ):
        server(port=port).start()
    one.stop()


def test_unknown_address_names_the_setting() -> None:
    with pytest.raises(BadInput, match=r"http\.port: cannot listen on"):
        server("no-such-host.invalid").start()


def test_answers_are_sent_without_delay() -> None:
    """Without TCP_NODELAY every answer on a kept connection takes 40 ms."""
    one = server()
    port = one.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        client.get("/healthz")
        [connection] = one._server.server_state.connections
        transport = connection.transport
        inner = transport.get_extra_info("socket")
        assert inner.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    one.stop()


def test_version_of_the_server_is_not_told() -> None:
    one = server()
    port = one.start()
    assert "server" not in httpx.get(f"http://127.0.0.1:{port}/healthz").headers
    one.stop()
