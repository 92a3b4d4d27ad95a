"""POST /v1/signals over a real connection."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, Retry
from tests.unit.web.world import BODY_CAP, BOOT, Verdict, World, event, push

PATH = "/v1/signals"
HEAD = b"POST /v1/signals HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n"


def test_push_becomes_signals_of_the_node_and_boot(client: httpx.Client, world: World) -> None:
    answer = client.post(PATH, json=push(event(3), event(4, xid=48)))
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2})
    first, second = world.taken
    assert (first.source, first.node, first.boot_id, first.kind, first.code) == (
        "agent",
        "gpu-1",
        BOOT,
        "xid",
        79,
    )
    assert (first.pci, first.seen_at, first.received_at) == ("0000:08:00", 1_800_000_000.0, world.clock.now())
    assert first.detail == {"pid": 7, "process": "python", "extra": {}, "raw": "NVRM: Xid"}
    assert (second.code, second.dedupe) == (48, f"agent:gpu-1:{BOOT}:4")
    assert world.counted("accepted") == 2


def test_same_push_again_is_the_same_rows(client: httpx.Client, world: World) -> None:
    for _ in range(2):
        assert client.post(PATH, json=push(event(3))).status_code == 200
    first, second = world.taken
    assert first.dedupe == second.dedupe


def test_answer_waits_for_the_commit(client: httpx.Client, world: World) -> None:
    world.commit.clear()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.post, PATH, json=push(event()))
        assert world.entered.acquire(timeout=30)
        assert not answer.done()
        world.commit.set()
        assert answer.result(30).status_code == 200


def test_empty_push_is_a_heartbeat_and_stores_nothing(client: httpx.Client, world: World) -> None:
    world.submit_error = AssertionError("nothing to submit")
    assert client.post(PATH, json=push()).json() == {"accepted": 0}
    assert world.beats == [("gpu-1", BOOT, world.clock.now())]


def test_what_an_agent_sees_of_checkpoints_is_kept_and_odd_looks_are_refused(
    client: httpx.Client, world: World
) -> None:
    found = {"key": {"jobname": "a\nb\u202e"}, "newest": "step_1", "ages": [60.0]}
    look = {"glob": "/shared/{jobname}/*", "looked_s": 1.0, "found": [found]}
    assert client.post(PATH, json=push() | {"checkpoints": [look]}).json() == {"accepted": 0}
    ((node, (kept,), at),) = world.looks
    assert (node, kept.found[0].key.jobname, at) == ("gpu-1", "a?b?", world.clock.now())
    odd: list[dict[str, object]] = [{"looked_s": -1}, {"found": [found] * 501}, {"glob": ""}, {"found": [{}]}]
    odd += [{"found": [found | {"ages": ages}]} for ages in ([-1], [1] * 9, ["NaN"], [1e300])]
    for wrong in odd:
        answer = client.post(PATH, json=push() | {"checkpoints": [look | wrong]})
        assert answer.status_code == 400, wrong
    assert len(world.looks) == 1


def test_push_with_events_is_a_sign_of_life_too(client: httpx.Client, world: World) -> None:
    client.post(PATH, json=push(event()))
    assert world.beats == [("gpu-1", BOOT, world.clock.now())]


@pytest.mark.parametrize(
    ("error", "status", "retry_after", "body"),
    [
        (Retry("the disk is full", after=2.1), 503, "3", {"error": "not stored; send it again"}),
        (Retry("busy", after=0), 503, "1", {"error": "not stored; send it again"}),
        (GiveUp("schema is newer"), 503, "1", {"error": "not stored; send it again"}),
        (Ambiguous("answer lost"), 503, "1", {"error": "not stored; send it again"}),
        (Blocked("paused"), 503, "1", {"error": "not stored; send it again"}),
        (
            BadInput("events.0.node", "not in the inventory"),
            400,
            None,
            {"error": "not in the inventory", "field": "events.0.node"},
        ),
        (RuntimeError("password=abc"), 500, None, {"error": "internal error; the service's log has it"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_failed_commit_is_never_a_success(
    error: Exception,
    status: int,
    retry_after: str | None,
    body: dict[str, str],
    client: httpx.Client,
    world: World,
) -> None:
    world.submit_error = error
    answer = client.post(PATH, json=push(event()))
    assert (answer.status_code, answer.headers.get("retry-after"), answer.json()) == (
        status,
        retry_after,
        body,
    )
    assert world.counted("accepted") == 0
    assert world.beats == []


MALFORMED: list[tuple[bytes, str]] = [
    (b"{", "body"),
    (b"[" * 50_000, "body"),
    (json.dumps(push(event(1), event(2, xid="seventy-nine"))).encode(), "events.1.event.xid"),
    (json.dumps(push(event(kind="x\x1b[2J"))).encode(), "events.0.event.kind"),
]


@pytest.mark.parametrize(("content", "field"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_body_is_refused_with_its_field(
    content: bytes, field: str, client: httpx.Client, world: World
) -> None:
    answer = client.post(PATH, content=content)
    assert answer.status_code == 400
    assert answer.json()["field"] == field
    assert answer.json()["error"]
    assert world.taken == []
    assert world.counted("malformed") == 1


def test_answer_to_a_malformed_body_repeats_no_value(client: httpx.Client) -> None:
    answer = client.post(PATH, json=push(event(xid="SECRETVALUE"), node="gpu-1"))
    assert "SECRETVALUE" not in answer.text


def test_long_names_of_unknown_fields_are_cut(client: httpx.Client) -> None:
    answer = client.post(PATH, json=push(**{"x" * 5000: 1}))
    assert answer.status_code == 400
    assert len(answer.text) < 500


@pytest.mark.parametrize("node", ["gpu-2", "gpu-1\n", "gpu-1\x00", "GPU-1", "../gpu-1", "gpu-1;reboot"])
def test_push_about_another_node_than_the_tokens_is_refused(
    node: str, client: httpx.Client, world: World
) -> None:
    answer = client.post(PATH, json=push(event(), node=node))
    assert answer.status_code == 403
    assert world.taken == []
    assert world.beats == []
    assert world.counted("refused") == 1


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic Zzo6", "good", "Bearer bad", "Bearer gööd"])
def test_sender_nobody_vouches_for_is_told_so(header: str | None, port: int, world: World) -> None:
    headers = [] if header is None else [(b"Authorization", header.encode())]
    answer = httpx.post(f"http://127.0.0.1:{port}{PATH}", json=push(event()), headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert world.taken == []
    assert world.counted("unauthenticated") == 1


def test_another_account_is_refused(client: httpx.Client, world: World) -> None:
    world.tokens["good"] = Verdict(username="system:serviceaccount:default:default")
    assert client.post(PATH, json=push(event())).status_code == 403
    assert world.counted("refused") == 1


def test_nothing_is_taken_while_the_api_server_cannot_vouch(client: httpx.Client, world: World) -> None:
    world.review_fails = True
    answer = client.post(PATH, json=push(event()))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert world.taken == []
    assert world.counted("unavailable") == 1


def test_body_announced_too_long_is_refused_before_it_is_sent(port: int, world: World) -> None:
    head = HEAD + b"Content-Length: 99999999\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    assert world.counted("malformed") == 1


def test_body_of_unknown_length_is_refused_while_it_comes(port: int, world: World) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(head + b"100000\r\n" + b" " * (BODY_CAP + 1))  # a chunk of 1 MiB that does not end
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
    assert world.counted("malformed") == 1


def test_strangers_body_is_not_read(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(b"POST /v1/signals HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")
