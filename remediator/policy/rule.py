"""One rule: about which signals it speaks, what it wants done, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from remediator.model.base import Ours
from remediator.model.incident import Tier
from remediator.model.timing import Timing

RulePlan = Literal["record", "restart-job", "drain-only", "validate", "replace"]
HARMLESS = frozenset({"record", "restart-job"})
"""Plans that do nothing to a node."""

LEFT_OUT = frozenset({"drain-only"})
"""Plans that end with the node out of service and with nothing that brings it back."""

MOST_CODES = 2000


def _codes(value: Any) -> Any:
    """Numbers and spans such as "18001-18020", as numbers."""
    return tuple(spread(value)) if isinstance(value, list) else value


def spread(entries: list[Any]) -> Iterator[Any]:
    """The numbers of a list in which a text "18001-18020" stands for all from the first to the last."""
    for entry in entries:
        first, dash, last = entry.partition("-") if isinstance(entry, str) else ("", "", "")
        if not dash:
            yield entry
            continue
        if not (first.isdecimal() and last.isdecimal() and 0 <= int(last) - int(first) < MOST_CODES):
            raise ValueError(f"{entry:.40} is no span of codes like 18001-18020")
        yield from range(int(first), int(last) + 1)


Codes = Annotated[tuple[int, ...], BeforeValidator(_codes)]


class Rule(Ours):
    """One row of policy. A rule without codes speaks about events that have none."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    kinds: tuple[str, ...] = Field(min_length=1)
    """Kinds of signals it speaks about; each is declared under `kinds`."""

    codes: Codes = Field(default=(), min_length=1, max_length=MOST_CODES)
    """XIDs or SXids, and spans of them."""

    when: str = Field(default="", max_length=1000)
    """Condition in CEL over the facts of its kinds; without one it always holds."""

    tier: Tier
    """How sure the evidence is."""

    plan: RulePlan
    """What is done."""

    timing: Timing = "now"
    """When jobs are interrupted for it."""

    over: tuple[str, ...] = ()
    """Rules it goes before where both speak."""

    cause: str = Field(min_length=3, max_length=120)
    """What has happened, as half a sentence; it stands in Slurm's reason."""

    why: str = Field(min_length=3)
    """Why this is the right plan."""

    source: str = Field(min_length=3)
    """Where that is known from."""

    page: bool = False
    """People are told, once an hour for each kind and code; for plans that do nothing to a node."""

    way_out: str = Field(default="", max_length=300)
    """Who or what gives the node back, for a plan that only takes it out."""

    @property
    def acts(self) -> bool:
        """Whether it does something to a node."""
        return self.plan not in HARMLESS

    def agrees(self, other: Rule) -> bool:
        """Whether it makes no difference which of the two speaks."""
        return (self.plan, self.tier, self.timing) == (other.plan, other.tier, other.timing)
