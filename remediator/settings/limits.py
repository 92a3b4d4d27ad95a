"""When many sick nodes are one cause, and what is remembered of one machine."""

from __future__ import annotations

from pydantic import Field

from remediator.settings.checks import Dns, LabelKey
from remediator.settings.section import Section


class GuardLimits(Section):
    """How many nodes may have the same fault before it counts as one cause that they share."""

    percent: float = Field(default=20.0, ge=0, le=100)
    """More of the nodes of a pool, or of those with one driver or image, than this: one cause."""

    at_least: int = Field(default=3, ge=1, le=100_000)
    """Fewer nodes than this are no share of anything."""

    behind_one: int = Field(default=3, ge=1, le=100_000)
    """More nodes than this behind one leaf switch or in one rack: one cause."""

    in_pool: int | None = Field(default=None, ge=1, le=100_000)
    """More nodes than this in one pool: one cause, however large the pool; null: only their share counts."""


class GuardSettings(GuardLimits):
    """When the same fault on many nodes is one cause, such as a leaf switch: people are paged once, and
    nothing but T0 drains is done for it until a person releases it.
    """

    window_s: float = Field(default=600.0, ge=60, le=86_400)
    """Seconds within which these nodes have fallen ill."""

    leaf_label: LabelKey = "network.topology.nvidia.com/leaf"
    """Label that names a node's leaf switch."""

    rack_label: LabelKey = "topology.kubernetes.io/rack"
    """Label that names a node's rack."""

    driver_label: LabelKey = "nvidia.com/cuda.driver-version.full"
    """Label that names a node's GPU driver."""

    classes: dict[Dns, GuardLimits] = Field(default={"thermal": GuardLimits(in_pool=3)})
    """Limits of a class: rules whose name begins with it count together. Others count by themselves.
    Heat stands at `in_pool` 3: a cooling that fails keeps to no leaf and no rack."""

    def cause_of(self, rule: str) -> str:
        """What a rule counts as: the longest class that its name begins with, else itself."""
        found = [name for name in self.classes if rule == name or rule.startswith(f"{name}-")]
        return max(found, key=len, default=rule)

    def limits_of(self, cause: str) -> GuardLimits:
        """The limits of a cause."""
        return self.classes.get(cause, self)


class MachineLimits(Section):
    """What is remembered of one machine, by its providerID or UID, and what comes of it."""

    remediations: int = Field(default=5, ge=1, le=100_000)
    """So many within `remediation_days`: from the next on it is only drained, and a person is paged."""

    remediation_days: float = Field(default=7.0, gt=0, le=365)
    """Days for which a remediation counts."""

    same_rule_h: float = Field(default=24.0, ge=0, le=8760)
    """Hours after its return in which the same fault replaces it: it is not tested or reset once more."""

    second_fault_days: float = Field(default=30.0, ge=0, le=365)
    """Days in which a second fault (T1) by the same rule goes one step further: from reset to replace."""

    settle_s: float = Field(default=600.0, ge=0, le=86_400)
    """Seconds after its own repair, and after the service first watched, in which evidence that is not final
    (T0) is only recorded."""
