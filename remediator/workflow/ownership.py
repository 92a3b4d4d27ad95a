"""Whose drain is it: ours, nobody's (empty or written by the system), or a person's."""

from __future__ import annotations

from remediator.model.incident import Incident, reason_prefix
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import author

OPERATOR = "slurm-operator: "
TERMINATING = f"{OPERATOR}Pod is terminating"
CONDEMNED = "is pending termination for scale-in"  # also written by a rollout, over any other reason
SYSTEM_PREFIXES = (
    OPERATOR,
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


def is_left_by_restart(node: SlurmNode) -> bool:
    """Out of service since its worker's pod ended: preStop writes over the reason, whoever's that was."""
    return (node.is_drain or node.is_down) and node.reason == TERMINATING


def ours_or_systems(node: SlurmNode, incident: Incident) -> bool:
    """The reason is empty, this incident's, or written by the system: it may be cleared."""
    ours = node.reason.startswith(incident.reason_prefix)
    return not node.reason or ours or is_systems(node.reason)


def is_systems(reason: str) -> bool:
    """Slurm or slurm-operator wrote it, and not on behalf of another tool that treats the node."""
    return reason.startswith(SYSTEM_PREFIXES) and author(reason) is None


def still_drained(drain: bool, reason: str, incident: str) -> bool:
    """Whether the DRAIN that was ours stands, whatever the system has written over its reason since.

    Not when it is the operator's own drain: with our reason in place the operator stands aside, unless it
    takes the worker itself away.
    """
    if reason.startswith(OPERATOR):
        return drain and (reason == TERMINATING or reason.endswith(CONDEMNED))
    return drain and (not reason or reason.startswith((reason_prefix(incident), *SYSTEM_PREFIXES)))


def somebody_elses(node: SlurmNode, incident: Incident) -> bool:
    """The reason is a person's or another tool's: their text and state stay."""
    if ours_or_systems(node, incident):
        return False
    return node.is_drain or not node.reason.startswith("remediator: ")
