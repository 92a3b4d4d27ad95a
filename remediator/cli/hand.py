"""The operator's hand: pause, resume, hold, release, return. Each waits for the core's answer."""

from __future__ import annotations

import getpass
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from remediator.cli.store import DEFAULT, SettingsFile
from remediator.clock import Clock, SystemClock
from remediator.errors import GiveUp, RemediatorError
from remediator.settings import load
from remediator.store import commands
from remediator.store.commands import AS_SPARE, EVEN_SO, Command
from remediator.store.engine import Store, open_read_only, open_store

ANSWER_S = 15.0
app = typer.Typer(help="Pause or resume everything, hold or release one incident, return a node.")


@app.command()
def pause(settings: SettingsFile = DEFAULT) -> None:
    """Stop writing to Slurm and Kubernetes; signals are still taken and judged."""
    _tell("pause", "", settings)


@app.command()
def resume(settings: SettingsFile = DEFAULT) -> None:
    """Go on after a pause."""
    _tell("resume", "", settings)


@app.command()
def hold(incident: str, settings: SettingsFile = DEFAULT) -> None:
    """Stop one incident where it stands."""
    _tell("hold", incident, settings)


@app.command()
def release(incident: str, settings: SettingsFile = DEFAULT) -> None:
    """Let a held incident go on."""
    _tell("release", incident, settings)


@app.command("return")
def return_(
    node: str,
    settings: SettingsFile = DEFAULT,
    even_so: Annotated[
        bool, typer.Option("--even-so", help="Although a final fault was seen in the node's present boot.")
    ] = False,
    as_spare: Annotated[
        bool, typer.Option("--as-spare", help="A replaced node becomes a spare, not a worker node again.")
    ] = False,
) -> None:
    """Give a node back: acceptance test, our taint and cordon off, RESUME where the drain is ours."""
    words = [word for word, said in ((EVEN_SO, even_so), (AS_SPARE, as_spare)) if said]
    _tell("return", " ".join([node, *words]), settings)


def _tell(verb: str, argument: str, settings: Path) -> None:
    url = load(settings, os.environ).store.url
    open_read_only(url).close()  # a wrong path is told of, not made into a new store that nobody reads
    store = open_store(url)
    answered = ask(store, verb, argument, SystemClock())
    typer.echo(answered.answer)
    if not answered.done:
        raise typer.Exit(1)


def ask(store: Store, verb: str, argument: str, clock: Clock) -> Command:
    """Write a command and wait for its answer; GiveUp when no controller answers."""
    actor = os.environ.get("REMEDIATOR_ACTOR") or getpass.getuser()
    wanted = Command(secrets.token_hex(8), verb, argument, actor, clock.now())
    with store.write() as connection:
        commands.ask(connection, wanted)
    until = clock.steady() + ANSWER_S
    while clock.steady() < until:
        with store.read() as connection:
            found = commands.get(connection, wanted.id)
        if found is not None and found.answered_at is not None:
            return found
        clock.sleep(0.1)
    raise _no_answer(verb)


def _no_answer(verb: str) -> RemediatorError:
    return GiveUp(f"{verb}: no controller answered within {ANSWER_S:.0f} s; it is done as soon as one runs")
