"""Which other tool wrote a node's reason, by the words it is known to write. Pure.

Nothing here makes a reason ours: what no row knows is a person's or another tool's all the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Author:
    """A tool that drains nodes, and what its words mean, as a half-sentence."""

    tool: str
    says: str


# Soperator looks for its tokens anywhere in the text, in this order; NVSentinel's stand behind the prefix
# of slurm-operator, which passes a Kubernetes node's cordon reason on.
_TOKENS = (
    ("[compute_maintenance] node reboot process", Author("Soperator", "it reboots the node")),
    ("[compute_maintenance] node replacement process", Author("Soperator", "it has the node replaced")),
    ("[hardware_problem]", Author("Soperator", "a hardware check failed")),
    ("[node_problem]", Author("Soperator", "a check of the node failed")),
    ("[user_problem]", Author("Soperator", "a check blames a job")),
    ("[NVSentinel]", Author("NVSentinel", "it treats the node")),
)
_PREFIXES = (
    ("Soperator auto-healing:", Author("Soperator", "it has the node rebooted or replaced")),
    ("Soperator activecheck:", Author("Soperator", "a check of the node failed")),
    ("soperator rolling update", Author("Soperator", "it updates the workers")),
    ("slurm-bridge:", Author("slurm-bridge", "its pods have the node")),
    ("NHC:", Author("Node Health Check", "a check of the node failed")),
)


def author(reason: str) -> Author | None:
    """The tool whose words these are, or None."""
    for token, found in _TOKENS:
        if token in reason:
            return found
    return next((found for prefix, found in _PREFIXES if reason.startswith(prefix)), None)


def quoted(reason: str) -> str:
    """A reason in a sentence, with its author where one is known."""
    found = author(reason)
    return f"{reason!r} ({found.tool}: {found.says})" if found else repr(reason)
