"""`python -m tests.bench [NAME...]`: run benchmarks and print each figure beside its floor."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from deploy.lab.api import Lab
from deploy.lab.cgroups import Group
from deploy.lab.errors import LabError
from deploy.setup.cache import cache_root
from tests.bench import capacity, eviction, machine, memory, overhead, readme, throughput
from tests.bench.latency import LINE, PUSH, QUEUE, WEBHOOK, Latency
from tests.bench.report import BASELINE, Result
from tests.bench.share import ungrouped
from tests.bench.site import Lost, Site
from tests.bench.webhook import QUEUED, drop_jobs, queue_jobs

ALONE = ("intake", "flow", "storm")
"""Need no lab."""
NAMES = (LINE, PUSH, WEBHOOK, *ALONE, "memory", "eviction", "replacement")
KILL_WAIT = 6
SAMPLES, QUICK_SAMPLES = 100, 20
ROUNDS, QUICK_ROUNDS = 9, 3
REPLACEMENTS, QUICK_REPLACEMENTS = 10, 1
INTAKE_S = 1.0
WIDTH = 150
"""Columns when the output is no terminal."""
Tell = Callable[[str], None]
console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Any of: {', '.join(NAMES)}; none: all.")] = None,
    quick: Annotated[bool, typer.Option(help="Fewer samples.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write everything, samples too, to this file.")] = None,
    lab: Annotated[
        str, typer.Option(help="The lab to use; it is brought up and down when it is not up.")
    ] = "bench",
    save_baseline: Annotated[
        bool, typer.Option(help="Make this run the one to compare with, and README's.")
    ] = False,
) -> None:
    """Measure the river: every figure beside its floor from the same run."""
    wanted = names or list(NAMES)
    unknown = sorted(set(wanted) - set(NAMES))
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    result = Result(machine.describe(cache_root()) | {"load_before": machine.load()})
    try:
        with console.status("starting") as status:
            _run(result, wanted, quick=quick, lab=Lab(lab), status=status)
    finally:  # minutes of measuring are in it, also when the lab does not come up after them
        result.machine["load_after"] = machine.load()
        if json is not None:
            result.save(json, samples=True)
        result.show(console)
    if save_baseline:
        result.save(BASELINE, samples=False)
        readme.write()


def _run(result: Result, wanted: list[str], *, quick: bool, lab: Lab, status: Status) -> None:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    if "intake" in wanted:
        result.figures += throughput.intake(rounds, INTAKE_S, cache_root(), status.update)
        result.figures += throughput.decision(rounds, cache_root(), status.update)
    if "flow" in wanted:
        result.figures += throughput.flow(rounds, cache_root(), status.update)
        result.notes.append(throughput.PEER)
    if "storm" in wanted:
        size = capacity.QUICK if quick else capacity.FULL
        result.figures += capacity.measure(cache_root(), status.update, size)
    if set(wanted) - set(ALONE):
        with _running(lab, status.update):
            _with_lab(result, wanted, lab=lab, quick=quick, tell=status.update)


def _with_lab(result: Result, wanted: list[str], *, lab: Lab, quick: bool, tell: Tell) -> None:
    if {LINE, PUSH, WEBHOOK, "memory"} & set(wanted):
        _to_drain(result, wanted, lab=lab, n=QUICK_SAMPLES if quick else SAMPLES, tell=tell)
    if "eviction" in wanted:
        with lab.visit_network():
            result.figures += eviction.measure(lab, QUICK_ROUNDS if quick else ROUNDS, tell)
    if "replacement" in wanted:
        result.figures += overhead.measure(lab, QUICK_REPLACEMENTS if quick else REPLACEMENTS, tell)


def _to_drain(result: Result, wanted: list[str], *, lab: Lab, n: int, tell: Tell) -> None:
    """All latencies up to DRAIN and fence; the controller's and the agents' memory before and after."""
    kinds = tuple(kind for kind in (LINE, PUSH) if kind in wanted)
    with lab.visit_network(), ungrouped(Group.of_lab(lab.name)):
        site = Site(lab)
        try:
            tell("the controller starts on an empty store, without budgets")
            site.prepare()
            tell(f"agents and controller rest for {memory.AT_REST_S:.0f} s")
            sizes = [*memory.resident(lab, "at rest"), *memory.busy(lab)]
            if kinds:
                _sample(result, Latency(site, tell), n, kinds)
            if WEBHOOK in wanted:
                tell(f"{QUEUED} jobs are queued")
                queue_jobs(lab)
                _sample(result, Latency(site, tell, under=QUEUE), 2 * n, (WEBHOOK,))
                drop_jobs(lab)
            result.figures += sizes + memory.resident(lab, "after the samples")
        finally:
            site.restore()


def _sample(result: Result, latency: Latency, n: int, kinds: tuple[str, ...]) -> None:
    result.figures += latency.run(n, kinds)
    result.notes += latency.notes()


@contextlib.contextmanager
def _running(lab: Lab, tell: Callable[[str], None]) -> Iterator[None]:
    """The lab as it is when it is up, else one for this run only."""
    if lab.is_up:
        yield
        return
    tell(f"bringing lab {lab.name} up")
    lab.up(kill_wait=KILL_WAIT, gpu_alerts=False)
    try:
        yield
    finally:
        tell(f"taking lab {lab.name} down")
        lab.down()


app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
app.command()(main)

if __name__ == "__main__":
    try:
        app()
    except (LabError, Lost) as error:
        console.print(f"bench: {error}")
        raise SystemExit(1) from None
