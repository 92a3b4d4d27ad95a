"""`remediator node NODE`: what is remembered of the machines that bore this name."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from rich.console import Console
from rich.table import Table

from remediator.cli.screen import screen
from remediator.cli.store import DEFAULT, AsJson, SettingsFile, open_from
from remediator.clock import SystemClock, rfc3339
from remediator.errors import BadInput
from remediator.incidents.memory import DAY_S, is_test
from remediator.incidents.strikes import accusers
from remediator.model.incident import GIVE_BACK
from remediator.run.memory import remember
from remediator.settings import Settings, load
from remediator.store import incidents, strikes

MOST = 20
app = typer.Typer(help="What is remembered of a node.")


@app.command()
def node(
    name: Annotated[str, typer.Argument(metavar="NODE")],
    settings: SettingsFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """What is remembered of NODE: its incidents, its strikes, and what they change. One block a machine."""
    tree = load(settings, os.environ)
    with open_from(settings).read() as connection:
        keys = [*incidents.keys_of(connection, name), *strikes.machines_of(connection, name)]
        now = SystemClock().now()
        found = [_machine(connection, key, tree, now) for key in dict.fromkeys(keys)]
    if not found:
        raise BadInput("node", f"nothing is remembered of {name!r}: no incident, no strike")
    if as_json:
        typer.echo(json.dumps(found))
        return
    for machine in found:
        show(name, machine, screen())


def _machine(connection: sa.Connection, key: str, tree: Settings, now: float) -> dict[str, Any]:
    limits = tree.budgets.machine
    memory = remember(connection, key, limits, now)
    since = now - tree.crashes.window_days * DAY_S
    closed = incidents.last_closed(connection, key)
    fresh = max(since, closed.closed_at or 0.0) if closed else since
    days_ago = now - limits.remediation_days * DAY_S
    lately = [one for one in memory.past if one.opened_at > days_ago and not is_test(one)]
    return {
        "machine": key,
        "incidents": [one.model_dump(mode="json") for one in incidents.of_key(connection, key, MOST)],
        "strikes": [asdict(one) for one in strikes.of_machine(connection, key, since)],
        "against": sorted(accusers(key, strikes.against(connection, key, since, fresh))),
        "remediations": len(lately),
        "remediations_allowed": limits.remediations,
        "remediation_days": limits.remediation_days,
        "returned_at": memory.returned_at or None,
    }


def show(name: str, machine: dict[str, Any], console: Console) -> None:
    """One machine for people: its past as a table, then what counts."""
    console.print(f"{name} as {machine['machine']}")
    table = Table("incident", "opened", "tier", "rule", "plan", "state", box=None)
    for one in machine["incidents"]:
        opened = rfc3339(one["opened_at"])
        table.add_row(one["id"], opened, one["tier"], one["rule"], one["plan"], one["state"])
    if machine["incidents"]:
        console.print(table)
    for one in machine["strikes"]:
        console.print(f"strike: job {one['job']} crashed on it at {rfc3339(one['at'])}")
    for line in _counts(machine):
        console.print(line)


def _counts(machine: dict[str, Any]) -> list[str]:
    done, most = machine["remediations"], machine["remediations_allowed"]
    stop = ": the next one only drains, and a person is paged" if done >= most else ""
    lines = [f"remediations within {machine['remediation_days']:g} days: {done} of {most}{stop}"]
    if machine["against"]:
        lines.append(f"crashed on it each time, and speak against it: job {', '.join(machine['against'])}")
    if machine["returned_at"]:
        lines.append(f"last back in service at {rfc3339(machine['returned_at'])}")
    if not any(one["plan"] != GIVE_BACK for one in machine["incidents"]):
        lines.append("no incident")
    return lines
