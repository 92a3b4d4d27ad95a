"""Asking real HTTP servers that answer well, badly, slowly or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from remediator.errors import Retry
from remediator.signals.alertmanager import Alert
from remediator.signals.sources import QUERY, AlertmanagerSource, PrometheusSource, Source
from tests.servers.wire import Reply, Request, reply_json, wire
from tests.unit.signals.alerts import SECOND, alert, listing, sample

Make = Callable[..., Source]
BOTH = pytest.mark.parametrize("make", [AlertmanagerSource, PrometheusSource])


def matrix(*rows: object) -> Reply:
    return reply_json({"status": "success", "data": {"resultType": "vector", "result": list(rows)}})


def good(request: Request) -> Reply:
    return matrix(sample()) if "/query" in request.path else Reply(200, listing(alert()))


@BOTH
def test_firing_alerts_with_the_second_they_began(make: Make) -> None:
    with wire(good) as server:
        [one] = make(server.url, None, 5).firing()
        assert one is not None
        assert (one.labels["node"], int(one.began), one.firing) == ("gpu-1", SECOND, True)
        assert len(server.requests) == 1


def test_prometheus_is_asked_for_what_fires_below_its_path() -> None:
    with wire(good) as server:
        PrometheusSource(f"{server.url}/prom", None, 5).firing()
        asked = urlsplit(server.requests[0].path)
        assert (asked.path, parse_qs(asked.query)["query"]) == ("/prom/api/v1/query", [QUERY])


@BOTH
def test_token_is_sent_and_read_again(make: Make, tmp_path: Path) -> None:
    token = tmp_path / "token"
    with wire(good) as server:
        source = make(server.url, token, 5)
        for text in ("first", "second"):
            token.write_text(text + "\n")
            source.firing()
        sent = [request.headers["Authorization"] for request in server.requests]
        assert sent == ["Bearer first", "Bearer second"]


@BOTH
@pytest.mark.parametrize("content", [None, b"a\nb", b"\xff"])
def test_without_a_token_nothing_is_asked(make: Make, content: bytes | None, tmp_path: Path) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    with wire(good) as server:
        with pytest.raises(Retry, match="token"):
            make(server.url, token, 5).firing()
        assert server.requests == []


@BOTH
@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, b"SECRETVALUE"),
        Reply(429, b"[]"),
        Reply(302, b"[]"),
        Reply(200, b"<html>SECRETVALUE"),
        Reply(200, b"{}"),
        Reply(200, b"null"),
        Reply(200, b'{"data":{"result":{}}}'),
        Reply(200, b'{"data":[]}'),
        Reply(200, b"[" * 200_000),
        Reply(200, listing(alert()), cut=40),
        Reply(raw=b"SECRETVALUE\r\n\r\n"),
        Reply(drop=True),
    ],
    ids=range(12),
)
def test_bad_answer_is_no_answer_and_is_asked_for_once(make: Make, reply: Reply) -> None:
    with wire(lambda _: reply) as server:
        with pytest.raises(Retry) as caught:
            make(server.url, None, 5).firing()
        assert "SECRET" not in str(caught.value)
        assert len(server.requests) == 1


@BOTH
def test_nobody_there_is_no_answer(make: Make) -> None:
    with wire(good) as server:
        url = server.url
    with pytest.raises(Retry):
        make(url, None, 5).firing()


@BOTH
def test_answer_that_trickles_is_given_up_and_not_asked_for_beside_itself(make: Make) -> None:
    with wire(lambda _: Reply(200, json.dumps([" " * 200]).encode(), pace=0.1)) as server:
        source = make(server.url, None, 0.5)
        with pytest.raises(Retry, match="within"):
            source.firing()
        with pytest.raises(Retry, match="has not ended"):
            source.firing()
        assert len(server.requests) == 1


@BOTH
def test_what_a_client_library_throws_is_no_answer(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("SECRETVALUE")

    monkeypatch.setattr("urllib3.PoolManager.request", broken)
    monkeypatch.setattr("prometheus_api_client.PrometheusConnect.custom_query", broken)
    with pytest.raises(Retry, match=r"ZeroDivisionError$"):
        make("http://127.0.0.1:1", None, 5).firing()


def test_source_that_hung_is_asked_again_once_its_request_ended() -> None:
    release = threading.Event()

    def answer(request: Request) -> Reply:
        release.wait(30)
        return good(request)

    with wire(answer) as server:
        source = AlertmanagerSource(server.url, None, 0.5)
        with pytest.raises(Retry):
            source.firing()
        release.set()
        found: list[Alert | None] = []
        while not found:  # ends by the answer, or by the suite's timeout
            with suppress(Retry):
                found = source.firing()
        assert len(found) == 1
