"""What a benchmark found: samples with a unit, their floor, their goal, and what limits them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """Upper bounds, for rates a lower one; None where the project states no bound."""

    p50: float | None = None
    p99: float | None = None
    ratio: float | None = None
    at_least: float | None = None

    def text(self) -> str:
        """As people write it."""
        parts = []
        if self.p50 is not None:
            parts.append(f"P50 ≤ {self.p50:g}")
        if self.p99 is not None:
            parts.append(f"P99 ≤ {self.p99:g}")
        if self.at_least is not None:
            parts.append(f"P50 ≥ {self.at_least:g}")
        if self.ratio is not None:
            parts.append(f"≤ {self.ratio:g} x floor")
        return ", ".join(parts)


@dataclass(frozen=True)
class Figure:
    """One row of the result. `floor` names the row that no implementation could beat."""

    what: str
    unit: str
    samples: tuple[float, ...]
    floor: str = ""
    goal: Goal = field(default_factory=Goal)
    limited_by: str = ""

    @property
    def n(self) -> int:
        """How many samples."""
        return len(self.samples)

    @property
    def p50(self) -> float:
        """The median."""
        return percentile(self.samples, 50)

    @property
    def p99(self) -> float:
        """Of rates the first percentile: the bad end of either kind."""
        return percentile(self.samples, 1 if self.is_rate else 99)

    @property
    def worst(self) -> float:
        """The largest time or size, the smallest rate."""
        return min(self.samples) if self.is_rate else max(self.samples)

    @property
    def is_rate(self) -> bool:
        """More is better."""
        return self.unit.endswith("/s")

    def json(self) -> dict[str, Any]:
        """All of it, samples rounded to what was really measured."""
        return {
            "n": self.n,
            "unit": self.unit,
            "p50": round(self.p50, 3),
            "p99": round(self.p99, 3),
            "worst": round(self.worst, 3),
            "floor": self.floor,
            "goal": self.goal.text(),
            "limited_by": self.limited_by,
            "samples": [round(sample, 3) for sample in self.samples],
        }


def percentile(samples: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: always a value that was measured."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def milliseconds(seconds: Sequence[float]) -> tuple[float, ...]:
    """Seconds as milliseconds."""
    return tuple(1000 * value for value in seconds)
