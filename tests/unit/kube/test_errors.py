"""Each way an exchange can fail, for a read and for a write."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from remediator.clock import SystemClock
from remediator.errors import Ambiguous, BadInput, Blocked, GiveUp, RemediatorError, Retry
from remediator.kube.errors import Conflict, Gone
from remediator.kube.session import Session
from tests.servers.kube_scripted import Answer, Handler, Server, serving

NODE = "/api/v1/nodes/gpu-0"
D = 5.0
PDB = {"details": {"causes": [{"reason": "DisruptionBudget", "message": "no"}]}}


def read(session: Session) -> object:
    return session.get(NODE, deadline=D)


def write(session: Session) -> object:
    return session.patch(NODE, {"metadata": {"labels": {"a": "b"}}}, deadline=D)


def read_briefly(session: Session) -> object:
    return session.get(NODE, deadline=0.2)


def write_briefly(session: Session) -> object:
    return session.patch(NODE, {}, deadline=0.2)


def failure(answer: Answer, act: Callable[[Session], object]) -> tuple[RemediatorError, int]:
    """What `act` raised, and how many requests the server saw."""
    with serving(Server(answer)) as server, pytest.raises(RemediatorError) as caught:
        act(server.session())
    return caught.value, len(server.requests)


def status(code: int, body: object = None, **headers: str) -> Answer:
    return lambda handler: handler.reply(code, {"message": "m"} if body is None else body, **headers)


def cut_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"metadata": {}')
    handler.close_connection = True


LOST: dict[str, Answer] = {
    "500": status(500),
    "503": status(503, b"<html>load balancer</html>"),
    "504": status(504),
    "reset": lambda handler: handler.reset(),
    "closed without a word": lambda handler: setattr(handler, "close_connection", True),
    "garbage": status(200, b"\x00 not json"),
    "a list": status(200, [1, 2]),
    "empty": status(200, b""),
    "a failure in a 200": status(200, {"kind": "Status", "status": "Failure"}),
    "cut body": cut_body,
    "half a body that is called whole": status(200, b'{"metadata": {"name": "gpu-0", "uid"'),
    "deep nesting": status(200, b"[" * 200_000),
}


@pytest.mark.parametrize("answer", LOST.values(), ids=LOST.keys())
def test_a_lost_answer_is_a_retry_for_reads_and_ambiguous_for_writes_sent_once(answer: Answer) -> None:
    gc.collect()  # a finalizer that runs at the bottom of the deep nesting cannot even complain
    error, seen = failure(answer, read)
    assert (type(error), seen) == (Retry, 1)
    error, seen = failure(answer, write)
    assert (type(error), seen) == (Ambiguous, 1)


ANSWERED: dict[str, tuple[Answer, type[RemediatorError]]] = {
    "400": (status(400), BadInput),
    "404 of a proxy": (status(404, b"404 page not found"), Retry),
    "409": (status(409), Conflict),
    "410": (status(410), Gone),
    "422": (status(422), BadInput),
    "429": (status(429), Retry),
    "429 of a disruption budget": (status(429, PDB), Blocked),
    "302": (status(302, {}, Location="http://elsewhere/"), GiveUp),
}


@pytest.mark.parametrize(("answer", "kind"), ANSWERED.values(), ids=ANSWERED.keys())
@pytest.mark.parametrize("act", [read, write])
def test_an_answer_means_the_same_for_reads_and_writes(
    answer: Answer, kind: type[RemediatorError], act: Callable[[Session], object]
) -> None:
    error, seen = failure(answer, act)
    assert (type(error), seen) == (kind, 1)
    assert "nodes/gpu-0" in str(error)


def forbidding(readyz: int) -> Answer:
    def answer(handler: Handler) -> None:
        ready = handler.path == "/readyz"
        handler.reply(readyz if ready else 403, b"" if ready else {"message": "no"})

    return answer


@pytest.mark.parametrize("act", [read, write])
def test_a_403_is_final_only_from_a_server_that_is_ready(act: Callable[[Session], object]) -> None:
    error, seen = failure(forbidding(200), act)
    assert (type(error), seen) == (GiveUp, 3)
    for starting in (403, 500):
        error, seen = failure(forbidding(starting), act)
        assert (type(error), seen) == (Retry, 2)


@pytest.mark.parametrize(
    ("headers", "body", "after"),
    [
        ({"Retry_After": "17"}, {}, 17.0),
        ({}, {"details": {"retryAfterSeconds": 4}}, 4.0),
        ({"Retry_After": "Wed, 21 Oct"}, {}, 1.0),
        ({"Retry_After": "99999999"}, {}, 300.0),
        ({"Retry_After": "-5"}, {}, 0.0),
        ({}, {"details": "text"}, 1.0),
    ],
)
def test_retry_after_is_honoured_within_reason(headers: dict[str, str], body: Any, after: float) -> None:
    error, _ = failure(status(429, body, **headers), read)
    assert isinstance(error, Retry)
    assert error.after == after


@pytest.mark.parametrize("act", [read, write])
def test_nobody_listening_is_a_retry(act: Callable[[Session], object]) -> None:
    server = Server(status(200))
    server.server_close()
    with pytest.raises(Retry, match="cannot be reached"):
        act(server.session())


def test_an_unknown_host_is_a_retry() -> None:
    server = Server(status(200))
    server.server_close()
    session = server.session()
    session._credentials.configuration.host = "http://no-such-host.invalid"
    with pytest.raises(Retry, match="cannot be reached"):
        write(session)


@pytest.mark.parametrize(("verb", "kind"), [("get", Retry), ("patch", Ambiguous)])
@pytest.mark.parametrize("trickle", [False, True])
def test_a_late_answer_ends_by_the_deadline(verb: str, kind: type[RemediatorError], trickle: bool) -> None:
    def late(handler: Handler) -> None:
        if trickle:
            handler.begin_stream()
        for _ in range(100):
            if trickle:
                handler.chunk(b" ")
            handler.server.ending.wait(0.05)

    act = {"get": read_briefly, "patch": write_briefly}[verb]
    began = time.monotonic()
    assert type(failure(late, act)[0]) is kind
    assert time.monotonic() - began < 3.0


def test_a_401_reads_the_credentials_again_and_sends_once_more() -> None:
    tokens = iter(["old", "new"])

    def answer(handler: Handler) -> None:
        handler.reply(*((200, {"ok": 1}) if "new" in handler.headers["Authorization"] else (401, {})))

    with serving(Server(answer)) as server:
        session = server.session(token=lambda: next(tokens))
        assert session.get(NODE, deadline=D) == {"ok": 1}
        assert session.get(NODE, deadline=D) == {"ok": 1}
        assert len(server.requests) == 3


def test_no_error_text_holds_the_token_or_control_characters() -> None:
    for answer in (status(401), status(500, {"message": "a\nb\x1b[31m" + "x" * 5000}), status(403)):
        with serving(Server(answer)) as server, pytest.raises(RemediatorError) as caught:
            server.session(token=lambda: "s3cret-token").get(NODE, deadline=D)
        assert "s3cret" not in str(caught.value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500


def test_a_lost_review_is_a_retry_because_it_has_no_effect() -> None:
    with serving(Server(status(500))) as server, pytest.raises(Retry):
        server.session(SystemClock()).post("/apis/x/v1/reviews", {}, deadline=D, harmless=True)


@pytest.mark.parametrize(
    "page",
    [
        {"items": "no", "metadata": {}},
        {"items": [], "metadata": None},
        {"items": []},
    ],
)
def test_a_list_that_is_none_is_a_retry(page: Any) -> None:
    with serving(Server(status(200, page))) as server, pytest.raises(Retry, match="no list"):
        server.session().list("/api/v1/nodes", deadline=D)
