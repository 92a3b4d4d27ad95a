"""`remediator config`: check a settings file, print a complete example."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from remediator.settings import example as example_text
from remediator.settings import load, overrides

app = typer.Typer(no_args_is_help=True, help="Check settings, or print a complete example.")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Settings file in YAML.")]) -> None:
    """Read FILE and the environment as the service would; exit 2 and say why when they are wrong."""
    settings = load(file, os.environ)
    typer.echo(f"ok: {file}")
    typer.echo(f"cluster {settings.cluster.name}, Slurm at {settings.slurm.url}, store {settings.store.url}")
    for name, pool in settings.pools.items():
        labels = ", ".join(f"{key}={value}" for key, value in pool.node_selector.items())
        typer.echo(f"pool {name}: {pool.stage}, nodes with {labels}")
    for variable in overrides(os.environ):
        typer.echo(f"overridden by {variable}")


@app.command()
def example() -> None:
    """Print a complete settings file with every setting explained."""
    typer.echo(example_text(), nl=False)
