"""POST /v1/signals: kernel events and heartbeats that agents push about their own node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.checkpoint import CheckpointLook
from remediator.model.signal import AgentPush, Signal
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.web.auth import AgentAuth, Reviewed
from remediator.web.body import read_body
from remediator.web.parse import parse_push, to_signals
from remediator.web.replies import Refused, outcome

SOURCE = "agent"
THREADS = 64  # most of them only wait for the intake's next commit
log = logger(stage="web")

Submit = Callable[[Sequence[Signal]], None]
Heartbeat = Callable[[str, str, float], None]
Looks = Callable[[str, Sequence[CheckpointLook], float], None]


class Pushes:
    """The agents' door.

    `submit` returns once the signals are committed, or raises Retry or BadInput. `heartbeat` gets node,
    boot id and time of every push that was taken; an empty push is a heartbeat and nothing else. `looks`
    keeps what an agent has seen of checkpoints.
    """

    def __init__(
        self,
        *,
        auth: AgentAuth,
        submit: Submit,
        heartbeat: Heartbeat,
        looks: Looks,
        metrics: Metrics,
        clock: Clock,
        body_cap: int,
    ) -> None:
        self._auth = auth
        self._submit = submit
        self._heartbeat = heartbeat
        self._looks = looks
        self._metrics = metrics
        self._clock = clock
        self._body_cap = body_cap
        self._threads = CapacityLimiter(THREADS)

    def route(self) -> Route:
        """Where this door is."""
        return Route("/v1/signals", self._post, methods=["POST"])

    async def _post(self, request: Request) -> Response:
        try:
            accepted = await self._handle(request)
        except RemediatorError as error:
            self._metrics.signals(SOURCE, outcome(error))
            raise
        self._metrics.signals(SOURCE, "accepted", accepted)
        return JSONResponse({"accepted": accepted})

    async def _handle(self, request: Request) -> int:
        # first who, then what: a stranger's body is not read
        header = request.headers.get("authorization")
        sender = self._auth.remembered(header)
        if sender is None:
            sender = await run_sync(self._auth.sender, header, limiter=self._threads)
        body = await read_body(request, self._body_cap)
        return await run_sync(partial(self.take, sender, body), limiter=self._threads)

    def take(self, sender: Reviewed, body: bytes) -> int:
        """Hand one push over and wait for its commit; the number of signals in it."""
        push = parse_push(body)
        self._own_node(sender, push)
        now = self._clock.now()
        signals = to_signals(push, now)
        if signals:
            self._submit(signals)
        if push.checkpoints:
            self._looks(push.node, push.checkpoints, now)
        self._heartbeat(push.node, push.boot_id, now)
        return len(signals)

    @staticmethod
    def _own_node(sender: Reviewed, push: AgentPush) -> None:
        if push.node != sender.node:
            log.warning("push about another node refused", node=sender.node, about=push.node[:253])
            raise Refused("node", "an agent may only speak of the node its token is bound to")
