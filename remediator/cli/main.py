"""The `remediator` command: one sub-command per topic, errors as lines without tracebacks."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from remediator import __version__
from remediator.errors import RemediatorError
from remediator.settings import load

TOPICS = ("config", "xid", "incidents", "audit")


class Group(TyperGroup):
    """Prints an error a caller is meant to handle as `error: …` and exits with status 2."""

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


for topic in TOPICS:
    if find_spec(f"remediator.cli.{topic}"):
        app.add_typer(import_module(f"remediator.cli.{topic}").app, name=topic)
