"""POST /v1/alerts over a real connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from remediator.errors import Ambiguous, GiveUp, Retry
from remediator.settings import Webhook
from remediator.web import stored
from remediator.web.alerts import Alerts
from remediator.web.app import create_app
from remediator.web.server import HttpServer
from tests.unit.signals.alerts import alert, body, without
from tests.unit.web.world import World

PATH = "/v1/alerts"
OLD, NEW = "old-SECRETTOKEN", "new-SECRETTOKEN"


@dataclass
class Door:
    """The door, its token files and its surroundings."""

    folder: Path
    world: World = field(default_factory=World)
    asked: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self.settings = Webhook(
            token_paths=(self.folder / "old", self.folder / "new"), body_cap_bytes=64 * 1024, alerts_cap=20
        )
        (self.folder / "old").write_text(OLD + "\n")
        (self.folder / "new").write_text(NEW)

    def ask(self) -> None:
        self.asked += 1

    def post(self, content: bytes, token: str | None = OLD, **headers: str) -> httpx.Response:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return httpx.post(f"http://127.0.0.1:{self.port}{PATH}", content=content, headers=headers, timeout=30)

    def counted(self, result: str) -> float | None:
        labels = {"source": "webhook", "result": result}
        return self.world.metrics.registry.get_sample_value("remediator_signals_received_total", labels)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    world = door.world
    alerts = Alerts(
        settings=door.settings,
        hand_in=world.hand_in,
        taken=world.told.extend,
        incomplete=door.ask,
        metrics=world.metrics,
        clock=world.clock,
    )
    app = create_app(health=world.health, metrics=world.metrics, doors=[alerts.route()])
    server = HttpServer(app, "127.0.0.1", 0)
    door.port = server.start()
    yield door
    world.commit.set()
    server.stop()


def test_notification_becomes_signals(door: Door) -> None:
    watchdog = without(alert(alertname="Watchdog"), "node", "xid")
    answer = door.post(body(alert(), alert(status="resolved"), watchdog, alert(node="gpu-[1-5]")))
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "ignored": 1, "refused": 1})
    assert [one.kind for one in door.world.taken] == ["xid", "alert-resolved", "alert-refused"]
    assert (door.counted("accepted"), door.counted("refused")) == (2, 1)
    assert door.asked == 0


def test_answer_waits_for_the_commit(door: Door) -> None:
    door.world.commit.clear()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(door.post, body(alert()))
        assert door.world.entered.acquire(timeout=30)
        assert not answer.done()
        door.world.commit.set()
        assert answer.result(30).status_code == 200


@pytest.mark.parametrize("error", [Retry("disk full"), GiveUp("schema"), Ambiguous("lost")])
def test_failed_commit_asks_alertmanager_to_send_again(error: Exception, door: Door) -> None:
    door.world.submit_error = error
    answer = door.post(body(alert()))
    assert (answer.status_code, answer.json()) == (503, {"error": "not stored; send it again"})
    assert (door.counted("accepted"), door.counted("unavailable")) == (0, 1)


@pytest.mark.parametrize("count", [1, 20])
def test_only_what_is_committed_is_told_of(count: int, door: Door) -> None:
    """A short notification is taken apart at once, a long one in a thread."""
    content = body(*(alert(node=f"gpu-{number}", text="x" * 1000) for number in range(count)))
    door.world.submit_error = Retry("disk full")
    assert door.post(content).status_code == 503
    assert door.world.told == []
    door.world.submit_error = None
    assert door.post(content).json()["accepted"] == count
    assert door.world.told == door.world.taken
    assert len(door.world.told) == count


def test_a_store_that_takes_too_long_is_answered_and_takes_the_next(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.world.commit.clear()
    with monkeypatch.context() as patch:
        patch.setattr(stored, "STALL_S", 0.05)
        assert door.post(body(alert())).status_code == 503
    door.world.commit.set()
    assert door.post(body(alert(node="gpu-2"))).status_code == 200


@pytest.mark.parametrize("token", [OLD, NEW])
def test_both_tokens_are_valid(token: str, door: Door) -> None:
    assert door.post(body(alert()), token).status_code == 200


def test_token_is_read_again_when_its_file_changes(door: Door) -> None:
    assert door.post(body(), "renewed-token").status_code == 401
    (door.folder / "next").write_text("renewed-token")
    (door.folder / "next").rename(door.folder / "old")
    assert door.post(body(), "renewed-token").status_code == 200
    assert door.post(body(), OLD).status_code == 401


@pytest.mark.parametrize("token", [None, "bad", OLD[:-1], OLD + "x", OLD.upper()])
def test_stranger_is_turned_away(token: str | None, door: Door) -> None:
    answer = door.post(body(alert()), token)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "SECRETTOKEN" not in answer.text
    assert door.world.taken == []
    assert door.counted("unauthenticated") == 1


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff", b"a\nb", b"x" * 10_000])
def test_a_token_that_cannot_be_read_may_be_the_senders(content: bytes | None, door: Door) -> None:
    file = door.folder / "new"
    file.unlink() if content is None else file.write_bytes(content)
    assert door.post(body(alert()), NEW).status_code == 503
    assert door.post(body(alert()), OLD).status_code == 200


def test_strangers_body_is_not_read(door: Door) -> None:
    with socket.create_connection(("127.0.0.1", door.port), 30) as connection:
        connection.sendall(b"POST /v1/alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 30_000, b"\x00", body(alert(text="SECRETVALUE"), version="3"), body(alert())[:-9]],
)
def test_what_can_never_be_read_is_refused_for_good(content: bytes, door: Door) -> None:
    answer = door.post(content)
    assert answer.status_code == 400
    assert answer.json()["field"]
    assert "SECRET" not in answer.text
    assert door.counted("malformed") == 1
    assert door.world.taken == []


@pytest.mark.parametrize("content", [body(alert(text="x" * 70_000)), body(*[alert()] * 21)])
def test_too_much_is_refused_and_asked_for_by_backfill(content: bytes, door: Door) -> None:
    assert door.post(content).status_code == 413
    assert door.asked == 1
    assert door.world.taken == []


def test_left_out_alerts_are_asked_for_at_once(door: Door) -> None:
    assert door.post(body(alert(), truncatedAlerts=5)).status_code == 200
    assert door.asked == 1
    assert len(door.world.taken) == 1


def test_nobody_is_let_in_without_a_token_file() -> None:
    world = World()
    alerts = Alerts(
        settings=Webhook(),
        hand_in=world.hand_in,
        taken=world.told.extend,
        incomplete=lambda: None,
        metrics=world.metrics,
        clock=world.clock,
    )
    app = create_app(health=world.health, metrics=world.metrics, doors=[alerts.route()])
    server = HttpServer(app, "127.0.0.1", 0)
    port = server.start()
    try:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer"}):
            answer = httpx.post(f"http://127.0.0.1:{port}{PATH}", content=body(), headers=headers)
            assert answer.status_code == 401
    finally:
        server.stop()
