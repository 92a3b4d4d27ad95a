"""`python -m tests.evidence`: a labelled trace through the real pipeline in virtual time, and its score."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from remediator.errors import BadInput
from remediator.run.replay import play
from remediator.run.trace import Row, read
from tests.evidence.generate import Generator, Size, written
from tests.evidence.score import Score
from tests.evidence.world import World

AFTER_S = 3600.0
WIDTH = 160
"""Columns when the output is no terminal."""
FAST = Path("/dev/shm")
console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def run(rows: list[Row], folder: Path, shown: Iterable[Row] | None = None) -> tuple[World, Score]:
    """The trace through the pipeline; `shown` are the same rows with a progress bar."""
    nodes = sum(row.type == "node" for row in rows)
    world = World(folder, rows, spares=max(2, nodes // 25))
    play(shown or rows, world, AFTER_S)
    return world, Score(world.store, world.truths)


def main(
    nodes: Annotated[int, typer.Option(help="Machines of the cluster.")] = 400,
    days: Annotated[float, typer.Option(help="Days of the trace.")] = 25.0,
    rate: Annotated[float, typer.Option(help="Times the published rate of faults.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Another number, another trace.")] = 1,
    trace: Annotated[
        Path | None, typer.Option(envvar="TRACE", help="Judge this trace (runbooks/traces.md) instead.")
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Only write the generated trace to this file.")] = None,
) -> None:
    """Say what the service would have done about a labelled trace; status 1 when a goal is missed."""
    rows = _rows(Size(nodes, days, rate, seed), trace)
    if write is not None:
        write.write_text("".join(f"{line}\n" for line in written(rows)))
        console.print(f"{len(rows)} rows in {write}")
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=FAST if FAST.is_dir() else None) as folder:
        bar = track(rows, "virtual time", console=console, transient=True)
        world, score = run(rows, Path(folder), bar)
    what = (
        trace or f"{nodes} machines × {days:g} days at {rate:g} × the published rate of faults, seed {seed}"
    )
    console.print(f"{what}: {len(rows)} rows, {world.turns} turns in {time.monotonic() - began:.0f} s\n")
    console.print(score.table())
    _worst(score)
    goals = score.goals()
    for goal in goals:
        console.print(f"{'holds ' if goal.holds else 'FAILS '} {goal.text}: {goal.found}")
    raise typer.Exit(0 if all(goal.holds for goal in goals) else 1)


def _worst(score: Score) -> None:
    console.print("\nworst first:")
    for line in score.worst() or ["nothing"]:
        console.print(f"  {line}", markup=False)
    console.print()


def _rows(size: Size, trace: Path | None) -> list[Row]:
    if trace is None:
        return Generator(size).rows()
    try:
        with trace.open("rb") as lines:
            return read(lines)
    except OSError as error:
        raise BadInput(str(trace), f"cannot be read: {error.strerror}") from error


app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
app.command()(main)

if __name__ == "__main__":
    try:
        app()
    except BadInput as error:
        console.print(f"evidence: {error}", markup=False)
        raise SystemExit(2) from None
