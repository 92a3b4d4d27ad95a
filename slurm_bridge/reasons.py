"""Who wrote a node's reason and what it means, by words that Slurm and tools are known to write. Pure.

Nothing here makes a reason ours: what no row knows is a person's or another tool's all the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Author:
    """Whoever drains nodes, what its words mean as a half-sentence, and in one word for the policy."""

    tool: str
    says: str
    means: str = "treated"


# Soperator looks for its tokens anywhere in the text, in this order; NVSentinel's stand behind the prefix
# of slurm-operator, which passes a Kubernetes node's cordon reason on.
_TOKENS = (
    ("[compute_maintenance] node reboot process", Author("Soperator", "it reboots the node")),
    ("[compute_maintenance] node replacement process", Author("Soperator", "it has the node replaced")),
    ("[hardware_problem]", Author("Soperator", "a hardware check failed", "node-check")),
    ("[node_problem]", Author("Soperator", "a check of the node failed", "node-check")),
    ("[user_problem]", Author("Soperator", "a check blames a job", "job-blamed")),
    ("[NVSentinel]", Author("NVSentinel", "it treats the node")),
)
_PREFIXES = (
    ("Soperator auto-healing:", Author("Soperator", "it has the node rebooted or replaced")),
    ("Soperator activecheck:", Author("Soperator", "a check of the node failed", "node-check")),
    ("soperator rolling update", Author("Soperator", "it updates the workers")),
    ("slurm-bridge:", Author("slurm-bridge", "its pods have the node")),
    ("NHC:", Author("Node Health Check", "a check of the node failed", "node-check")),
    ("k8s:", Author("SUNK", "its pod or node is out in Kubernetes", "cordoned")),
    ("Action:Replace", Author("HyperPod", "it replaces the node")),
    ("Action:Reboot", Author("HyperPod", "it reboots the node")),
)
# What slurmctld, slurmd and slurm-operator write themselves.
_BY_SLURM = (
    ("gres/gpu", Author("Slurm", "slurmd finds fewer GPUs than are configured", "gres-count")),
    ("Kill task failed", Author("Slurm", "processes of a job did not end", "kill-failed")),
    ("Prolog error", Author("Slurm", "a prolog failed", "prolog-failed")),
    ("Epilog error", Author("Slurm", "an epilog failed", "epilog-failed")),
    ("batch job complete failure", Author("Slurm", "slurmd failed a job", "launch-failed")),
    ("Low RealMemory", Author("Slurm", "slurmd finds less than is configured", "low-resources")),
    ("Low socket*core", Author("Slurm", "slurmd finds less than is configured", "low-resources")),
    ("Low CPUs", Author("Slurm", "slurmd finds less than is configured", "low-resources")),
    ("Low TmpDisk", Author("Slurm", "slurmd finds less than is configured", "low-resources")),
    ("Not responding", Author("Slurm", "slurmd does not answer", "silent")),
    ("Node unexpectedly rebooted", Author("Slurm", "it rebooted by itself", "rebooted")),
    ("ResumeTimeout reached", Author("Slurm", "it was switched on and did not come", "power")),
    ("Reboot ASAP", Author("Slurm", "somebody asked for its reboot", "treated")),
    ("slurm-operator: ", Author("slurm-operator", "a cordon or a rollout in Kubernetes", "cordoned")),
)
_PERSON = Author("a person or an unknown tool", "nobody here knows why", "person")


def author(reason: str) -> Author | None:
    """The tool whose words these are, or None."""
    for token, found in _TOKENS:
        if token in reason:
            return found
    return next((found for prefix, found in _PREFIXES if reason.startswith(prefix)), None)


def drained_by(reason: str) -> Author:
    """Who drained with these words: a tool, Slurm itself, or else somebody whose text and state stay."""
    found = author(reason)
    if found is not None:
        return found
    return next((one for prefix, one in _BY_SLURM if reason.startswith(prefix)), _PERSON)


def quoted(reason: str) -> str:
    """A reason in a sentence, with its author where one is known."""
    found = author(reason)
    return f"{reason!r} ({found.tool}: {found.says})" if found else repr(reason)
