"""README's table of figures: written from the baseline, so that both always say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.docs.table import table
from tests.bench.report import BASELINE, short

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = (
    "<!-- figures: written by `python -m tests.bench --save-baseline` -->\n",
    "<!-- end of figures -->\n",
)
COLUMNS = ("", "unit", "n", "P50", "P99", "worst", "floor P50", "goal")
SHOWN = ("cpu", "cores", "memory_gib", "kernel", "journal", "synchronous", "load_before", "load_after")


def block(baseline: Mapping[str, Any]) -> str:
    """The machine, then a row for each figure; the P99 of a rate is its slow end."""
    machine = ", ".join(
        f"{name} {baseline['machine'][name]}" for name in SHOWN if name in baseline["machine"]
    )
    return "".join(f"{line}\n" for line in (f"Measured on: {machine}.", *table(COLUMNS, _rows(baseline))))


def present(readme: str) -> str:
    """What stands between the marks; ValueError when they are not there."""
    return readme[readme.index(BEGIN) + len(BEGIN) : readme.index(END)]


def write() -> None:
    """Put the baseline's table into README."""
    text = README.read_text()
    new = block(json.loads(BASELINE.read_text()))
    README.write_text(text.replace(BEGIN + present(text) + END, BEGIN + new + END))


def _rows(baseline: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    figures = baseline["figures"]
    for what, one in figures.items():
        floor = figures.get(one["floor"])
        numbers = (short(one["p50"]), short(one["p99"]), short(one["worst"]))
        least = short(floor["p50"]) if floor else ""
        yield (what, one["unit"], str(one["n"]), *numbers, least, one.get("goal", ""))
