"""Probes, numbers and error pages."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request

from remediator.errors import BadInput
from remediator.web.body import read_body
from remediator.web.pushes import THREADS
from remediator.web.replies import TooSlow
from tests.unit.web.world import World, event, push


def test_healthz_fails_when_a_loop_is_silent(client: httpx.Client, world: World) -> None:
    world.health.loop("core", 10)
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")
    world.clock.advance(11)
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.text == "[-]core failed: silent for 11 s, at most 10 s allowed\nhealthz check failed\n"


def test_verbose_lists_one_line_per_check(client: httpx.Client, world: World) -> None:
    world.health.ready("store", lambda: None)
    world.health.ready("caches", lambda: "pods: not synced")
    assert client.get("/readyz?verbose").text == (
        "[+]store ok\n[-]caches failed: pods: not synced\nreadyz check failed\n"
    )
    assert client.get("/healthz?verbose").text == "healthz check passed\n"


def test_probes_answer_while_every_push_waits_for_the_store(client: httpx.Client, world: World) -> None:
    world.commit.clear()
    with ThreadPoolExecutor(THREADS + 8) as pool:
        answers = [pool.submit(client.post, "/v1/signals", json=push(event(n))) for n in range(THREADS + 8)]
        for _ in range(THREADS):
            assert world.entered.acquire(timeout=30)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200
        assert not any(answer.done() for answer in answers)
        world.commit.set()
        assert {answer.result(30).status_code for answer in answers} == {200}


def test_metrics_page_is_prometheus_text(client: httpx.Client) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "remediator_signals_received" in {one.name for one in text_string_to_metric_families(answer.text)}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/signals", 405),
        ("POST", "/metrics", 405),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
    ],
)
def test_unknown_path_or_method_is_answered_in_the_same_form(
    method: str, path: str, status: int, client: httpx.Client
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


def request(receive: Any) -> Request:
    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_body_that_does_not_arrive_in_time_is_given_up() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TooSlow):
        asyncio.run(read_body(request(never), 100, 0.01))


def test_sender_that_leaves_in_the_middle_is_bad_input() -> None:
    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    with pytest.raises(BadInput):
        asyncio.run(read_body(request(gone), 100))
