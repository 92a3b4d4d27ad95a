"""The HTTP application: the doors it is given, /metrics, /healthz and /readyz."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from remediator.observe.health import Health, Report
from remediator.observe.metrics import Metrics
from remediator.web.replies import install

THREADS = 4


def create_app(*, health: Health, metrics: Metrics, doors: Sequence[APIRouter] = ()) -> FastAPI:
    """The application with one router per door; errors are answered as JSON without tracebacks."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install(app)
    for door in (*doors, _probes(health, metrics)):
        app.include_router(door)
    return app


def _probes(health: Health, metrics: Metrics) -> APIRouter:
    router = APIRouter()
    threads = CapacityLimiter(THREADS)  # apart from the doors': probes answer while pushes wait for the store

    @router.get("/healthz")
    async def healthz(request: Request) -> PlainTextResponse:
        return _text("healthz", health.live(), verbose="verbose" in request.query_params)

    @router.get("/readyz")
    async def readyz(request: Request) -> PlainTextResponse:
        report = await run_sync(health.readiness, limiter=threads)
        return _text("readyz", report, verbose="verbose" in request.query_params)

    @router.get("/metrics")
    async def numbers() -> PlainTextResponse:
        page = await run_sync(metrics.render, limiter=threads)
        return PlainTextResponse(page, media_type=CONTENT_TYPE_LATEST)

    return router


def _text(name: str, report: Report, *, verbose: bool) -> PlainTextResponse:
    if report.ok and not verbose:
        return PlainTextResponse("ok\n")
    lines = (*report.lines, f"{name} check {'passed' if report.ok else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 200 if report.ok else 503)
