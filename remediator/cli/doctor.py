"""`remediator doctor`: is everything set as it has to be, and what to change where it is not."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table

from remediator.cli.screen import screen
from remediator.cli.store import DEFAULT, AsJson, SettingsFile
from remediator.clock import SystemClock
from remediator.run.doctor.examine import CHECKS, examine, status
from remediator.run.doctor.finding import Finding
from remediator.run.doctor.site import Site
from remediator.settings import Settings, load
from slurm_bridge.backends import open_slurm

app = typer.Typer(help="Is everything set as it has to be?")


@app.command()
def doctor(settings: SettingsFile = DEFAULT, as_json: AsJson = False) -> None:
    """Check versions, settings, rights, clocks, spares; exit 0 (all well), 1 (a warning) or 2 (an error)."""
    site = _site(load(settings, os.environ))
    with Console(stderr=True).status(f"running {len(CHECKS)} checks"):
        findings = list(examine(site))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        show(findings, screen())
    raise typer.Exit(status(findings))


def _site(tree: Settings) -> Site:
    clock = SystemClock()
    ways = open_slurm(tree.slurm, clock)
    return Site(tree, ways.port, clock, ways.rest, ways.pyslurm)


def show(findings: list[Finding], console: Console) -> None:
    """One line a check; below each that is not well the line to set or the command to run."""
    table = Table("", "check", "found", box=None)
    for finding in findings:
        table.add_row(finding.level, finding.check, finding.says)
        if finding.change:
            table.add_row("", "", f"→ {finding.change}")
    console.print(table)
    counts = [sum(finding.level == level for finding in findings) for level in ("ok", "warn", "error")]
    console.print(f"{counts[0]} ok, {counts[1]} to look at, {counts[2]} to mend")
