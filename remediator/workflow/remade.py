"""Whether a DRAIN went with its worker's restart: no person lifts it then.

preStop writes the operator's own reason over ours, under which the operator lifts the DRAIN of a node that is
not cordoned and leaves it DOWN; of a worker that came from another node it makes a node that is IDLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from remediator.workflow.ownership import OPERATOR
from slurm_bridge.model import SlurmNode

SETTLED_S = 40.0
"""After a slurmd's start: the operator, which looks every 30 s, has lifted by then what it lifts."""
OUTLIVED = "outlived"
"""Fact: by worker the start of the slurmd that the DRAIN was seen to outlive."""


def outlived(facts: Mapping[str, Any], nodes: Iterable[SlurmNode], now: float) -> dict[str, float]:
    """The starts that change nothing any more: known as such, or long ago at slurmctld's `now`."""
    known = facts.get(OUTLIVED, {})
    starts = {node.name: node.slurmd_start_time for node in nodes}
    settled = {name: at for name, at in starts.items() if at is not None}
    return {name: at for name, at in settled.items() if known.get(name) == at or at + SETTLED_S <= now}


def went_with_restart(facts: Mapping[str, Any], node: SlurmNode) -> bool:
    """Whether the missing DRAIN is the restart's doing. A RESUME would have ended DOWN; what a person does
    while a new slurmd has yet to settle cannot be told from what the operator does then.
    """
    if node.is_down and (not node.reason or node.reason.startswith(OPERATOR)):
        return True
    known = facts.get(OUTLIVED)
    if known is None or node.slurmd_start_time is None:
        return False
    return bool(known.get(node.name) != node.slurmd_start_time)
