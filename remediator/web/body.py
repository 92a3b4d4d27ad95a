"""Read a request body with a limit on its length and on the time it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request

from remediator.errors import BadInput
from remediator.web.replies import TooLong, TooSlow

DEADLINE_S = 10.0
SMALL = 16 * 1024  # bytes: a thread for them would take longer than reading them does
Read = TypeVar("Read")


async def read_body(request: Request, cap: int, deadline_s: float = DEADLINE_S) -> bytes:
    """The body of `request`; TooLong as soon as more than `cap` bytes are announced or read."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > cap:
        raise TooLong("body", f"longer than {cap} bytes; send fewer events at once")
    try:
        async with asyncio.timeout(deadline_s):
            return await _read(request, cap)
    except TimeoutError:
        raise TooSlow("body", f"did not arrive within {deadline_s:.0f} s") from None
    except ClientDisconnect:
        raise BadInput("body", "ended before its announced length") from None


async def _read(request: Request, cap: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        length += len(part)
        if length > cap:
            raise TooLong("body", f"longer than {cap} bytes; send fewer events at once")
        parts.append(part)
    return b"".join(parts)


async def taken_apart(body: bytes, read: Callable[[bytes], Read], threads: CapacityLimiter) -> Read:
    """What `read` makes of a body: a long one in a thread, so that the door takes others meanwhile."""
    if len(body) <= SMALL:
        return read(body)
    return await run_sync(read, body, limiter=threads)
