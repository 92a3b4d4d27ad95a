"""POST /v1/signals: kernel events and heartbeats that agents push about their own node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.checkpoint import CheckpointLook
from remediator.model.signal import AgentPush
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.signals.intake import HandIn
from remediator.web.auth import AgentAuth, Reviewed
from remediator.web.body import read_body, taken_apart
from remediator.web.parse import parse_push, to_signals
from remediator.web.replies import Refused, outcome
from remediator.web.stored import stored

SOURCE = "agent"
THREADS = 64  # most of them wait for the API server to vouch for a token
log = logger(stage="web")

Heartbeat = Callable[[str, str, float], None]
Looks = Callable[[str, Sequence[CheckpointLook], float], None]


class Pushes:
    """The agents' door.

    What `hand_in` returns is done once the signals are committed. `heartbeat` gets node, boot id and time of
    every push that was taken; an empty push is a heartbeat and nothing else. `looks` keeps what an agent has
    seen of checkpoints.
    """

    def __init__(
        self,
        *,
        auth: AgentAuth,
        hand_in: HandIn,
        heartbeat: Heartbeat,
        looks: Looks,
        metrics: Metrics,
        clock: Clock,
        body_cap: int,
    ) -> None:
        self._auth = auth
        self._hand_in = hand_in
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
        push = await taken_apart(body, parse_push, self._threads)
        self._own_node(sender, push)
        return await self._take(push)

    async def _take(self, push: AgentPush) -> int:
        """Hand one push over and wait for its commit; the number of signals in it."""
        now = self._clock.now()
        signals = to_signals(push, now)
        if signals:
            await stored(self._hand_in(signals))
        if push.checkpoints:
            await run_sync(self._looks, push.node, push.checkpoints, now, limiter=self._threads)
        self._heartbeat(push.node, push.boot_id, now)
        return len(signals)

    @staticmethod
    def _own_node(sender: Reviewed, push: AgentPush) -> None:
        if push.node != sender.node:
            log.warning("push about another node refused", node=sender.node, about=push.node[:253])
            raise Refused("node", "an agent may only speak of the node its token is bound to")
