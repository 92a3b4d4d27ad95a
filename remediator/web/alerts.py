"""POST /v1/alerts: Alertmanager's notifications, version 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.settings import Webhook
from remediator.signals.alertmanager import read_notification, told
from remediator.signals.episodes import Converted, convert
from remediator.signals.intake import HandIn
from remediator.web.body import read_body, taken_apart
from remediator.web.replies import TooLong, outcome
from remediator.web.stored import stored
from remediator.web.tokens import TokenFiles

SOURCE: Final = "webhook"
THREADS = 4  # for long notifications
log = logger(stage="web")


class Alerts:
    """Alertmanager's door.

    What `hand_in` returns is done once the signals are committed, and `taken` is told of them then.
    `incomplete` is called when alerts were left out of a notification, or had to be: the backfill should look
    at once.
    """

    def __init__(
        self,
        *,
        settings: Webhook,
        hand_in: HandIn,
        taken: Callable[[Sequence[Signal]], None],
        incomplete: Callable[[], None],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._tokens = TokenFiles(settings.token_paths)
        self._hand_in = hand_in
        self._taken = taken
        self._incomplete = incomplete
        self._metrics = metrics
        self._clock = clock
        self._threads = CapacityLimiter(THREADS)

    def route(self) -> Route:
        """Where this door is."""
        return Route("/v1/alerts", self._post, methods=["POST"])

    async def _post(self, request: Request) -> Response:
        try:
            found = await self._handle(request)
        except RemediatorError as error:
            self._metrics.signals(SOURCE, outcome(error))
            raise
        refused = found.refused.total()
        self._metrics.signals(SOURCE, "accepted", found.taken)
        self._metrics.signals(SOURCE, "refused", refused)
        for reason, count in found.refused.items():
            self._metrics.doubted(f"alert-{reason}", count)
        return JSONResponse({"accepted": found.taken, "ignored": found.ignored, "refused": refused})

    async def _handle(self, request: Request) -> Converted:
        # first who, then what: a stranger's body is not read
        header = request.headers.get("authorization")
        self._tokens.check(header)
        try:
            body = await read_body(request, self._settings.body_cap_bytes)
        except TooLong:
            self._incomplete()
            raise
        found = await taken_apart(body, self._read, self._threads)
        await stored(self._hand_in(found.signals))
        self._taken(found.signals)
        return found

    def _read(self, body: bytes) -> Converted:
        notification = read_notification(body)
        too_many = len(notification.entries) > self._settings.alerts_cap
        if notification.truncated or too_many:
            self._incomplete()
        if too_many:
            raise TooLong("alerts", f"more than {self._settings.alerts_cap}; group alerts by node")
        found = convert(told(notification.entries), self._settings, SOURCE, self._clock.now())
        if found.refused:
            log.warning("alerts refused", reasons=dict(found.refused))
        return found
