"""A real server on a free port."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from remediator.web.app import create_app
from remediator.web.pushes import Pushes
from remediator.web.server import HttpServer
from tests.unit.web.world import BODY_CAP, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def port(world: World) -> Iterator[int]:
    pushes = Pushes(
        auth=world.auth,
        hand_in=world.hand_in,
        looks=world.look,
        heartbeat=world.beat,
        metrics=world.metrics,
        clock=world.clock,
        body_cap=BODY_CAP,
    )
    app = create_app(health=world.health, metrics=world.metrics, doors=[pushes.route()])
    server = HttpServer(app, "127.0.0.1", 0)
    yield server.start()
    world.commit.set()
    server.stop()


@pytest.fixture
def client(port: int) -> Iterator[httpx.Client]:
    headers = {"Authorization": "Bearer good"}
    limits = httpx.Limits(max_connections=None)
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30, limits=limits
    ) as client:
        yield client
