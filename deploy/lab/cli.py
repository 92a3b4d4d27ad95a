"""The lab's command line: `python -m deploy.lab up | status | inject ... | logs | exec | kubectl | down`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deploy.lab import slurm
from deploy.lab.api import SERVICE_EXEC, Lab
from deploy.lab.errors import LabError
from deploy.lab.inject_cli import inject
from deploy.lab.kubeapi import condition
from deploy.lab.layout import DEFAULT_NAME
from deploy.lab.spec import ALERTMANAGER_PORT, CONTROL_PLANE, PROMETHEUS_PORT, node
from deploy.lab.watch import Lines

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="A lab of real parts on this machine."
)
app.add_typer(inject, name="inject")
console = Console(highlight=False)
# Without interspersed arguments nothing after the first word is read here, not even a `--`.
_PASS_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
_SLURM_COMMANDS = ("scontrol", "squeue", "sinfo", "srun", "sacct", "scancel")

Name = Annotated[str, typer.Option(envvar="REMEDIATOR_LAB", help="Which lab; several can run side by side.")]


@app.callback()
def choose(context: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Choose the lab that the command is about."""
    if os.geteuid() != 0:
        raise LabError("the lab makes namespaces and control groups: run it as root")
    context.obj = Lab(name)


@app.command()
def up(
    context: typer.Context,
    kill_wait: Annotated[
        int, typer.Option(min=1, max=65533, help="Slurm's KillWait in seconds: the grace of a job.")
    ] = slurm.GRACE_SECONDS,
    without_service: Annotated[bool, typer.Option(help="Leave our own service out.")] = False,
    without_alerts: Annotated[bool, typer.Option(help="Leave the alert rules about GPUs out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print seconds since the start, by phase.")] = False,
) -> None:
    """Bring the lab up; says so when it is up already."""
    lab: Lab = context.obj
    if lab.is_up:
        typer.echo("{}" if as_json else f"lab {lab.name} is already up")
        return
    with Lines(Console(stderr=True, highlight=False)) as watcher:
        figures = lab.up(
            kill_wait=kill_wait, service=not without_service, gpu_alerts=not without_alerts, watcher=watcher
        )
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        typer.echo(
            f"lab {lab.name} is up. Next: python -m deploy.lab status | kubectl get pods -A | squeue | down"
        )


@app.command()
def down(context: typer.Context) -> None:
    """Take the lab down and leave nothing running; the logs stay."""
    lab: Lab = context.obj
    found = lab.down()
    typer.echo(f"lab {lab.name} is down; logs: {lab.layout.logs}" if found else f"lab {lab.name} was not up")


@app.command()
def status(context: typer.Context) -> None:
    """Nodes and parts at a glance."""
    lab: Lab = context.obj
    if lab.control.first_pid() is None:
        raise LabError(f"lab {lab.name} is not up: python -m deploy.lab up")
    console.print(_node_table(lab))
    console.print(_part_table(lab))
    console.print(
        f"Prometheus http://{CONTROL_PLANE}:{PROMETHEUS_PORT}  Alertmanager http://{CONTROL_PLANE}:{ALERTMANAGER_PORT}"
    )


def _node_table(lab: Lab) -> Table:
    table = Table("node", "power", "Ready", "schedulable", "taints", "GPUs", box=None)
    for found in lab.api.get("/api/v1/nodes")["items"]:
        name, spec = found["metadata"]["name"], found["spec"]
        power = "on" if lab.node(name).is_on else "off"
        taints = " ".join(taint["key"] for taint in spec.get("taints", []))
        gpus = found["status"].get("allocatable", {}).get("nvidia.com/gpu", "0")
        table.add_row(
            name, power, condition(found), "no" if spec.get("unschedulable") else "yes", taints, gpus
        )
    return table


def _part_table(lab: Lab) -> Table:
    table = Table("part", "running", "exit code", "starts", box=None)
    for name, part in lab.control.parts().items():
        code = "" if part["exit_code"] is None else str(part["exit_code"])
        table.add_row(name, "yes" if part["running"] else "NO", code, str(part["starts"]))
    return table


@app.command()
def logs(
    context: typer.Context,
    part: Annotated[
        str, typer.Argument(help="A part, node, namespace or pod, or its beginning; none lists all.")
    ] = "",
    lines: Annotated[int, typer.Option("-n", help="How many of the last lines.")] = 40,
    follow: Annotated[bool, typer.Option("-f", help="Go on as the log grows.")] = False,
) -> None:
    """List every log, or show the end of one."""
    lab: Lab = context.obj
    files = {str(file.relative_to(lab.layout.logs)): file for file in sorted(lab.layout.logs.rglob("*.log"))}
    wanted = [file for name, file in files.items() if part and f"/{part}" in f"/{name}".replace("_", "/")]
    if part and not wanted:
        raise LabError(f"no log {part!r}; there are: {', '.join(files) or 'none'}")
    if not part:
        typer.echo(f"{len(files)} logs in {lab.layout.logs}")
        for name, file in files.items():
            typer.echo(f"{file.stat().st_size:>12} {name}")
        return
    tail = ["tail", f"-n{lines}", *(["-f"] if follow else []), *map(str, wanted)]
    os.execvp(tail[0], tail)  # noqa: S606


@app.command("exec", context_settings=_PASS_ON)
def execute(
    context: typer.Context, on: Annotated[str, typer.Option(help="A node; none: the control plane.")] = ""
) -> None:
    """Run a command in the control plane's namespaces, or in a node's."""
    lab: Lab = context.obj
    if on:
        node(on)
    lab.entry(on or None).become(context.args or ["bash"])


@app.command(context_settings=_PASS_ON)
def kubectl(context: typer.Context) -> None:
    """Kubectl as the administrator."""
    lab: Lab = context.obj
    lab.entry().become([str(lab.layout.binary("kubectl")), *context.args])


@app.command(context_settings=_PASS_ON)
def remediator(context: typer.Context) -> None:
    """The service's own command, in the controller's pod."""
    lab: Lab = context.obj
    lab.entry().become([str(lab.layout.binary("kubectl")), *SERVICE_EXEC, *context.args])


@app.command(context_settings=_PASS_ON)
def sbatch(context: typer.Context) -> None:
    """sbatch; a script of this machine is copied to /shared/scripts first."""
    lab: Lab = context.obj
    lab.entry().become(slurm.chroot("sbatch", *_with_script_inside(lab, context.args)))


def _with_script_inside(lab: Lab, arguments: Sequence[str]) -> list[str]:
    """The arguments with the first one that is a file here replaced by its copy there."""
    changed = list(arguments)
    for index, argument in enumerate(arguments):
        if Path(argument).is_file():
            folder = lab.layout.shared / "scripts"
            folder.mkdir(exist_ok=True)
            shutil.copy(argument, folder)
            changed[index] = f"/shared/scripts/{Path(argument).name}"
            break
    return changed


def _slurm_command(name: str) -> None:
    """One of Slurm's own commands under its own name."""

    def run(context: typer.Context) -> None:
        lab: Lab = context.obj
        lab.entry().become(slurm.chroot(name, *context.args))

    app.command(name, context_settings=_PASS_ON, help=f"{name}, as root in the lab's Slurm.")(run)


for _name in _SLURM_COMMANDS:
    _slurm_command(_name)
