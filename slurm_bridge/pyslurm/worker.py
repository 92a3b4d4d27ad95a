"""The pyslurm worker, one file: the standard library and pyslurm only, for Slurm's own Python (3.9 or newer).

Reads one JSON request a line on stdin, `{"id", "op", "args", "token", "deadline"}`, and answers on stdout
with `{"id", "result"}` or `{"id", "error": {"errno", "text"}}`. It ends when stdin does. A call that takes
longer than its deadline ends the process from inside, also when whoever asked is gone.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

PROTOCOL = 1
Operations = Mapping[str, Callable[..., Any]]


def main(operations: Operations) -> None:
    """Serve until stdin ends. What libslurm prints must not get between the answers: it goes to stderr."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        serve(operations, requests, answers)


def serve(operations: Operations, requests: BinaryIO, answers: BinaryIO) -> None:
    """One answer to each request, in order."""
    _send(answers, {"ready": PROTOCOL})
    for line in requests:
        if not line.endswith(b"\n"):
            return
        request = json.loads(line)
        # SIGALRM's default action ends the process even while libslurm hangs with the interpreter locked.
        signal.setitimer(signal.ITIMER_REAL, max(float(request["deadline"]), 0.001))
        answer = _answer(operations, request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(answers, {"id": request["id"], **answer})


def _answer(operations: Operations, request: dict[str, Any]) -> dict[str, Any]:
    os.environ["SLURM_JWT"] = request["token"]
    try:
        return {"result": operations[request["op"]](**request["args"])}
    except Exception as error:  # noqa: BLE001  (the edge of the process: every failure becomes an answer)
        return {"error": _told(error, request["token"])}


def _told(error: Exception, token: str) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}".replace(token or "\0", "(token)")
    number = getattr(error, "errno", None)
    return {"errno": number if isinstance(number, int) else None, "text": text[:400]}


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()
