"""`remediator plan NODE`: what would happen if this node fell ill now. Changes nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from remediator.cli.screen import screen, span
from remediator.cli.store import DEFAULT, AsJson, SettingsFile, open_from
from remediator.clock import SystemClock
from remediator.kube.session import connect
from remediator.policy import rules
from remediator.run.job_outlook import JobOutlook
from remediator.run.outlook import Foresight, Outlook
from remediator.settings import Settings, load
from slurm_bridge.backends import open_slurm

app = typer.Typer(help="What would happen if a node fell ill now.")


@app.command()
def plan(
    node: str,
    settings: SettingsFile = DEFAULT,
    xid: Annotated[int, typer.Option(help="The fault to think of.")] = 79,
    as_json: AsJson = False,
) -> None:
    """What would happen if NODE fell ill now: jobs, spare, vetoes, budgets. Changes nothing."""
    tree = load(settings, os.environ)
    foresight = _foresight(tree, settings)
    outlook = foresight.look(node, xid)
    if as_json:
        typer.echo(json.dumps(asdict(outlook)))
    else:
        show(outlook, screen())
    raise typer.Exit(1 if outlook.unknown else 0)


def _foresight(tree: Settings, settings: SettingsFile) -> Foresight:
    clock = SystemClock()
    slurm = open_slurm(tree.slurm, clock).port
    api = connect(tree.kubernetes.kubeconfig, clock=clock, pool_size=4)
    return Foresight(tree, open_from(settings), slurm, api, rules.load(overlay=tree.policy.overlay), clock)


def show(outlook: Outlook, console: Console) -> None:
    """The outlook for people: the decision, the jobs, then what else counts, one line each."""
    where = f"in pool {outlook.pool} at stage {outlook.stage}" if outlook.pool else "in no pool"
    workers = ", ".join(outlook.slurm_nodes) or "none"
    console.print(f"{outlook.node} is {where}; Slurm workers on it: {workers}")
    console.print(f"{outlook.fault} now → {outlook.sentence.removeprefix(f'{outlook.fault} ')}")
    if outlook.jobs:
        console.print(_jobs(outlook.jobs))
    for line in _lines(outlook):
        console.print(line)


def _jobs(jobs: tuple[JobOutlook, ...]) -> Table:
    table = Table("job", "user", "name", "kind", "GPUs", "runs for", "GPU-hours", "what happens", box=None)
    for job in jobs:
        gpus, hours = (_known(value) for value in (job.gpus, job.gpu_hours))
        what = job.what
        table.add_row(
            job.address,
            job.user,
            job.name,
            job.kind,
            gpus,
            "?" if job.running_s is None else span(job.running_s),
            hours,
            what,
        )
    return table


def _lines(outlook: Outlook) -> list[str]:
    lines = [] if outlook.jobs else ["no job is on it" if outlook.knows_jobs else "its jobs are not known"]
    if any(job.released for job in outlook.jobs):
        lines.append(
            f"at stake: {outlook.gpu_hours_at_stake} GPU-hours since the last start of what is moved"
        )
    lines += [
        f"job {job.address}: {job.last_save}; {_known(job.lost_gpu_hours)} GPU-hours would be lost"
        if job.lost_gpu_hours is not None
        else f"job {job.address}: {job.last_save}, lost work unknown"
        for job in outlook.jobs
        if job.released
    ]
    lines += [f"cannot be reached now: slurmd of {name} does not answer" for name in outlook.mute]
    if outlook.plan == "replace":
        lines += _spare(outlook)
    lines += [f"vetoed by {veto}: no cordon, no eviction, no replacement" for veto in outlook.vetoes]
    lines += [f"maintenance: {found}" for found in outlook.maintenance]
    lines += [f"would be held or changed: {found}" for found in outlook.holds]
    lines += [f"would wait: {refused}" for refused in outlook.budgets.values() if refused]
    room = ", ".join(name for name, refused in outlook.budgets.items() if not refused)
    lines += [f"budgets with room: {room}"] if room else []
    lines += [f"unknown: {found}" for found in outlook.unknown]
    return [*lines, "nothing was changed"]


def _spare(outlook: Outlook) -> list[str]:
    taken = f"{outlook.spare} would be claimed" if outlook.spare else f"none: {outlook.without_spare}"
    return [f"spare: {taken}", *(f"no spare: {reason}" for reason in outlook.spares_refused)]


def _known(value: float | None) -> str:
    return "?" if value is None else str(value)
