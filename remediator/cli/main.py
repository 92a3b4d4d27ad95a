"""The `remediator` command: one sub-command per topic, errors as lines without tracebacks."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from remediator import __version__
from remediator.errors import RemediatorError
from remediator.settings import load

TOPICS = ("config", "policy", "xid", "incidents", "audit")
HAND = ("pause", "resume", "hold", "release", "return")
VERBS = {**dict.fromkeys(HAND, "hand"), "plan": "plan", "node": "node", "doctor": "doctor"}
"""Commands without a group of their own, and the module each is in."""


class Group(TyperGroup):
    """Loads a topic's module when it is asked for; prints errors as `error: …` with status 2."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All sub-commands: the operator's hand, then the topics."""
        return [*super().list_commands(ctx), *VERBS, *TOPICS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The sub-command of that name; a topic comes with its libraries only now."""
        if cmd_name in VERBS:
            module = import_module(f"remediator.cli.{VERBS[cmd_name]}")
            return get_group(module.app).get_command(ctx, cmd_name)
        if cmd_name not in TOPICS:
            return super().get_command(ctx, cmd_name)
        group = get_group(import_module(f"remediator.cli.{cmd_name}").app)
        group.name = cmd_name
        return group

    def invoke(self, ctx: Any) -> Any:
        """Run the command line."""
        try:
            return super().invoke(ctx)
        except RemediatorError as error:
            for line in str(error).splitlines():
                typer.echo(f"error: {line}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its tracebacks print local variables, secrets among them
    help="Drains sick GPU nodes, saves and restarts their jobs, and proves what it did.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"remediator {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Drains sick GPU nodes, saves and restarts their jobs, and proves what it did."""


@app.command()
def controller(
    settings: Annotated[
        Path, typer.Option(envvar="REMEDIATOR_SETTINGS", help="Settings file in YAML.")
    ] = Path("/etc/remediator/settings.yaml"),
) -> None:
    """Run the service until it is told to stop or loses leadership."""
    tree = load(settings, os.environ)
    # imported here: the other verbs start without the service's libraries
    import_module("remediator.run.controller").run(tree)
