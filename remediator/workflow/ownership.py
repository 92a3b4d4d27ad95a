"""Whose drain is it: ours, nobody's (empty or written by the system), or a person's."""

from __future__ import annotations

from remediator.errors import Blocked
from remediator.model.incident import Incident
from slurm_bridge.model import SlurmNode

SYSTEM_PREFIXES = (
    "slurm-operator: ",
    "Not responding",
    "Node unexpectedly rebooted",
    "Kill task failed",
    "Prolog error",
    "Epilog error",
    "gres/gpu count",
)


def is_our_drain(node: SlurmNode, incident: Incident) -> bool:
    """DRAIN is set and the reason names this incident."""
    return node.is_drain and node.reason.startswith(incident.reason_prefix)


def ours_or_systems(node: SlurmNode, incident: Incident) -> bool:
    """The reason is empty, this incident's, or written by the system: it may be cleared."""
    return not node.reason or node.reason.startswith((incident.reason_prefix, *SYSTEM_PREFIXES))


def check_owner(node: SlurmNode, incident: Incident) -> None:
    """Blocked when the reason is a person's or another tool's; their text and state stay."""
    reason = node.reason
    if ours_or_systems(node, incident):
        return
    if reason.startswith("remediator: ") and not node.is_drain:
        return
    raise Blocked(f"{node.name} has somebody else's reason {reason!r}: held, nothing is overwritten")
