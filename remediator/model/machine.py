"""A node as the inventory knows it now: identity, pool, boot, and the Slurm workers on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from remediator.model.base import Ours
from remediator.model.incident import Tier
from remediator.model.timing import Timing

Stage = Literal["observe", "drain-only", "move-jobs", "full"]
TIERS: tuple[Tier, ...] = get_args(Tier)


class Stages(Ours):
    """How far to go by tier of evidence; what a map leaves out is as here."""

    T0: Stage = "full"
    T1: Stage = "observe"
    T2: Stage = "full"
    T3: Stage = "full"

    def __str__(self) -> str:
        return ", ".join(f"{tier} {getattr(self, tier)}" for tier in TIERS)


def _stages(value: object) -> object:
    """A stage as it is, a map of tiers (in either case) as Stages; errors say which word is wrong."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, Stages) else _stage(value, "")
    tiers = {str(tier).upper(): stage for tier, stage in value.items()}
    unknown = [tier for tier in tiers if tier not in TIERS]
    if unknown:
        raise ValueError(f"{unknown[0]:.40} is no tier; the tiers are {', '.join(TIERS)}")
    return Stages.model_validate({tier: _stage(stage, f" for {tier}") for tier, stage in tiers.items()})


def _stage(value: object, where: str) -> object:
    known = get_args(Stage)
    if value in known:
        return value
    first, last = ", ".join(map(repr, known[:-1])), repr(known[-1])
    raise PydanticCustomError("literal_error", f"Input should be {first} or {last}{where}")


StageByTier = Annotated[Stage | Stages, BeforeValidator(_stages)]


class Machine(Ours):
    """One Kubernetes node as of `version`, `created` when it registered, of which alerts without a boot tell
    for certain from `alerts_from` on; `pool` is None when no pool's selector matches it. `reports` is
    what Soperator says of it, if that runs its pool. `shares` is what it has in common with others, from the
    nearest to the widest: (leaf, NAME), (rack, NAME), (driver, VERSION), (image, NAME), (pool, NAME).
    """

    name: str
    uid: str
    provider_id: str = ""
    boot_id: str
    pool: str | None = None
    stage: StageByTier = "observe"
    pool_size: int = 0
    slurm_nodes: tuple[str, ...] = ()
    fenced_by: str | None = None
    cordoned: bool = False
    fence_undone: str = ""
    version: str = ""
    restart_failed_jobs: bool = False
    hold_until_fenced: bool = False
    timing: Timing | None = None
    of_soperator: bool = False
    reports: tuple[str, ...] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)
    shares: tuple[tuple[str, str], ...] = ()
    created: float = 0.0
    alerts_from: float = 0.0

    @property
    def key(self) -> str:
        """What makes two nodes the same machine: the providerID, else the node's UID, never the name."""
        return self.provider_id or self.uid

    def stage_for(self, tier: Tier) -> Stage:
        """How far to go on evidence of this tier; Soperator treats its nodes itself."""
        if self.of_soperator:
            return "observe"
        if not isinstance(self.stage, Stages):
            return self.stage
        stage: Stage = getattr(self.stage, tier)
        return stage
