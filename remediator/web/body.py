"""Read a request body with a limit on its length and on the time it takes."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from remediator.errors import BadInput
from remediator.web.replies import TooLong, TooSlow

DEADLINE_S = 10.0
SMALL = 16 * 1024
"""Bytes of a body that is taken apart at once: a thread for it would take longer than that does."""


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
