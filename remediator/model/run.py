"""A job run: one life of one Slurm job between two requeues."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours


class JobRun(Ours):
    """Identity of a run and how it is to be released; `address` is what a requeue names ("12" or "9_3").
    `waited_for_by` are the addresses of jobs that depend on it: a native requeue keeps them waiting.
    `started_at` is in seconds on slurmctld's clock; `held_because` says why its requeue is to end held;
    `gpus` are those on all its nodes, None where Slurm does not say.
    """

    job_id: int
    submit_time: int
    restart_count: int
    address: str
    name: str = ""
    user: str = ""
    nodes: tuple[str, ...] = ()
    release: Literal["requeue", "tell-only"] = "requeue"
    why: str = ""
    waited_for_by: tuple[str, ...] = ()
    started_at: float | None = None
    held_because: str = ""
    gpus: int | None = None

    @property
    def key(self) -> str:
        """Text form of the identity, used as a step's subject."""
        return f"{self.job_id}.{self.submit_time}.{self.restart_count}"
