"""The result as tables and as JSON, beside the committed baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure

BASELINE = Path(__file__).parent / "baseline.json"


class Result:
    """All figures of one run and the machine they are from."""

    def __init__(self, machine: Mapping[str, Any]) -> None:
        self.machine = dict(machine)
        self.figures: list[Figure] = []
        self.notes: list[str] = []

    def show(self, console: Console) -> None:
        """Times and rates with their floors, what limits them, and the difference to the baseline."""
        baseline = _baseline()
        console.print("machine: " + ", ".join(f"{name} {value}" for name, value in self.machine.items()))
        for unit in dict.fromkeys(figure.unit for figure in self.figures):
            console.print(self._table(unit, baseline.get("figures", {})))
        for figure in self.figures:
            if figure.limited_by:
                console.print(f"{figure.what}: limited by {figure.limited_by}", highlight=False)
        for note in self.notes:
            console.print(note, highlight=False)
        if baseline:
            console.print("baseline: " + ", ".join(f"{k} {v}" for k, v in baseline["machine"].items()))

    def save(self, path: Path, *, samples: bool) -> None:
        """Everything as JSON; the baseline goes without the samples."""
        figures = {figure.what: figure.json() for figure in self.figures}
        if not samples:
            for values in figures.values():
                del values["samples"]
        whole = {"machine": self.machine, "figures": figures, "notes": self.notes}
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")

    def _table(self, unit: str, baseline: Mapping[str, Any]) -> Table:
        rate = unit.endswith("/s")
        bad = ("P1", "slowest") if rate else ("P99", "max")
        table = Table(
            unit, "n", "P50", *bad, "floor P50", "ratio P50", "ratio P99", "goal", "P50 then", box=None
        )
        by_name = {figure.what: figure for figure in self.figures}
        for figure in self.figures:
            if figure.unit == unit:
                table.add_row(*_row(figure, by_name.get(figure.floor), baseline.get(figure.what)))
        return table


def _then(now: float, before: float) -> str:
    """The baseline's figure, and by how much this one differs; nothing can differ from 0 by a share."""
    return f"{short(before)} ({100 * (now / before - 1):+.0f} %)" if before else short(before)


def _row(figure: Figure, floor: Figure | None, before: Mapping[str, Any] | None) -> Sequence[str]:
    floors = ("", "", "")
    if floor is not None:
        floors = (short(floor.p50), _ratio(figure, floor, "p50"), _ratio(figure, floor, "p99"))
    then = "" if before is None else _then(figure.p50, before["p50"])
    numbers = (str(figure.n), short(figure.p50), short(figure.p99), short(figure.worst))
    return (figure.what, *numbers, *floors, verdict(figure, floor), then)


def _ratio(figure: Figure, floor: Figure, at: str) -> str:
    """How many times the floor's time, or the floor's rate in ours."""
    mine, least = getattr(figure, at), getattr(floor, at)
    return f"{(least / mine if figure.is_rate else mine / least):.1f}"


def verdict(figure: Figure, floor: Figure | None) -> str:
    """The goal and whether it was met; a bench never fails on timing."""
    goal = figure.goal
    if not goal.text():
        return ""
    ratio = figure.p50 / floor.p50 if floor is not None else 0.0
    met = (
        (goal.p50 is None or figure.p50 <= goal.p50)
        and (goal.p99 is None or figure.p99 <= goal.p99)
        and (goal.at_least is None or figure.p50 >= goal.at_least)
        and (goal.ratio is None or ratio <= goal.ratio)
    )
    return f"{goal.text()}: {'met' if met else 'MISSED'}"


def short(value: float) -> str:
    """One decimal, none from a thousand on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _baseline() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(BASELINE.read_text())
    except FileNotFoundError:
        return {}
    return found
