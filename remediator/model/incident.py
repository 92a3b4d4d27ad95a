"""An incident: one sick machine, from its first evidence until it is closed."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours
from remediator.model.timing import Timing

State = Literal["open", "held", "yielding", "closed", "overridden"]
Tier = Literal["T0", "T1", "T2", "T3"]
GIVE_BACK = "give-back"
"""The plan of a machine that a person returns to service: no fault, and no fault folds into it."""

RESTART_JOB = "restart-job"
"""The plan of a job that crashed; its incident is about the job, no node is touched by it."""

HOLD_JOB = "hold-job"
"""The plan of a job that Slurm itself took from a node it set DOWN; its incident is about the job."""

COMMON_CAUSE = "common-cause"
"""The plan of a group: many nodes have one fault, what they share is at fault; it has no steps and ends when
a person releases it, or when none of them has it any more.
"""

SILENT_NODE = "silent-node"
"""The rule of a machine whose agent and slurmd are both silent."""

VALIDATE, VALIDATE_ONLY = "validate", "validate-only"
"""Plans of a suspect machine: one that fails its test is replaced, or only stays drained."""


def reason_prefix(incident_id: str) -> str:
    """How every reason of an incident begins."""
    return f"remediator: {incident_id} "


class Incident(Ours):
    """What is known about one sick machine; `key` is its providerID, else the node's UID.

    `yielding`: a person overrode it, and what we set elsewhere is being taken back; then `overridden`.
    `observed`: it only waits because its pool observes such evidence, and stands in nobody's way.
    """

    id: str
    key: str
    node: str
    node_uid: str
    boot_id: str
    slurm_nodes: tuple[str, ...] = ()
    tier: Tier
    rule: str
    cause: str
    plan: str
    state: State = "open"
    sentence: str = ""
    fault_at: float
    opened_at: float
    closed_at: float | None = None
    held_by: str = ""
    pool: str = ""
    dry_run: bool = False
    timing: Timing = "now"
    observed: bool = False

    @property
    def goes_on(self) -> bool:
        """Its plan is being carried out, or waits: it has neither ended nor yielded to a person."""
        return self.state in {"open", "held"}

    @property
    def waits(self) -> bool:
        """Its jobs are given time, on a machine that is drained and fenced already."""
        return self.timing != "now"

    @property
    def is_silence(self) -> bool:
        """Neither the machine's agent nor its slurmd answered: no grace can reach its jobs."""
        return self.rule == SILENT_NODE

    @property
    def reason_prefix(self) -> str:
        """How every reason of this incident begins; nobody else's does."""
        return reason_prefix(self.id)

    @property
    def drain_reason(self) -> str:
        """The reason written into Slurm and, as text, on the Kubernetes node."""
        return f"{self.reason_prefix}{self.cause}"[:200]
