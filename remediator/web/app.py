"""The HTTP application: the doors it is given, /metrics, /healthz and /readyz."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from remediator.observe.health import Health, Report
from remediator.observe.metrics import Metrics
from remediator.web.replies import HANDLERS

THREADS = 4


def create_app(*, health: Health, metrics: Metrics, doors: Sequence[Route] = ()) -> Starlette:
    """The application with one route per door; errors are answered as JSON without tracebacks."""
    routes = [*doors, *_probes(health, metrics)]
    return Starlette(routes=routes, exception_handlers=HANDLERS)


def _probes(health: Health, metrics: Metrics) -> list[Route]:
    threads = CapacityLimiter(THREADS)  # apart from the doors': probes answer while pushes wait for the store

    async def healthz(request: Request) -> PlainTextResponse:
        return _text("healthz", health.live(), verbose="verbose" in request.query_params)

    async def readyz(request: Request) -> PlainTextResponse:
        report = await run_sync(health.readiness, limiter=threads)
        return _text("readyz", report, verbose="verbose" in request.query_params)

    async def numbers(_request: Request) -> PlainTextResponse:
        page = await run_sync(metrics.render, limiter=threads)
        return PlainTextResponse(page, media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", numbers)]


def _text(name: str, report: Report, *, verbose: bool) -> PlainTextResponse:
    if report.ok and not verbose:
        return PlainTextResponse("ok\n")
    lines = (*report.lines, f"{name} check {'passed' if report.ok else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 200 if report.ok else 503)
