"""Which data_parser to speak: the newest both sides know, probed downward."""

from __future__ import annotations

from collections.abc import Callable

from remediator.errors import GiveUp
from slurm_bridge.rest.refusals import refusal
from slurm_bridge.rest.transport import Answer

NEWEST = 45
BASE = 44


def probe(get: Callable[[str], Answer]) -> int:
    """45 (Slurm 26.05) or 44 (25.11); GiveUp when slurmrestd knows neither. `get` reads one path."""
    for number in range(NEWEST, BASE - 1, -1):
        answer = get(f"/slurm/v0.0.{number}/ping/")
        if answer.status not in {200, 404}:
            raise refusal(answer, "find slurmrestd's version", write=False)
        if answer.body is not None and isinstance(answer.body.get("pings"), list):
            return number
        if answer.status == 200:
            raise refusal(answer, "find slurmrestd's version", write=False)
    raise GiveUp(f"slurmrestd offers no data_parser v0.0.{BASE}: Slurm 25.11 or newer is needed")
