"""Waiting for the intake's commit without a thread of one's own."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from remediator.errors import Retry
from remediator.signals.intake import STALL_S, TOO_LONG


async def stored(done: Future[None]) -> None:
    """Return once what was handed in is committed; Retry when it is not."""
    try:
        await asyncio.wait_for(asyncio.wrap_future(done), STALL_S)
    except TimeoutError:
        raise Retry(TOO_LONG, after=1.0) from None
