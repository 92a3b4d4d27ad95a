"""A node as the inventory knows it now: identity, pool, boot, and the Slurm workers on it."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours

Stage = Literal["observe", "drain-only", "move-jobs", "full"]


class Machine(Ours):
    """One Kubernetes node; `pool` is None when no pool's selector matches it."""

    name: str
    uid: str
    provider_id: str = ""
    boot_id: str
    pool: str | None = None
    stage: Stage = "observe"
    pool_size: int = 0
    slurm_nodes: tuple[str, ...] = ()
    fenced_by: str | None = None
    restart_failed_jobs: bool = False

    @property
    def key(self) -> str:
        """What makes two nodes the same machine: the providerID, else the node's UID, never the name."""
        return self.provider_id or self.uid
