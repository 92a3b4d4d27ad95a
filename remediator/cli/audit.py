"""`remediator audit`: prove that the record is whole, or export it."""

from __future__ import annotations

import json

import typer

from remediator.audit import chain
from remediator.cli.store import DEFAULT, AsJson, SettingsFile, open_from

app = typer.Typer(no_args_is_help=True, help="The audit record: verify it, or export it.")


@app.command()
def verify(settings: SettingsFile = DEFAULT, as_json: AsJson = False) -> None:
    """Recompute the whole chain; exit 1 and name the first bad record when it does not fit."""
    with open_from(settings).read() as connection:
        verdict = chain.verify(connection)
    if as_json:
        typer.echo(json.dumps({"ok": verdict.ok, "records": verdict.records, "head": verdict.head,
                               "broken_at": verdict.broken_at, "problem": verdict.problem}))  # fmt: skip
    elif verdict.ok:
        typer.echo(f"audit: ok ({verdict.records} records)")
    else:
        typer.echo(f"audit: broken at record {verdict.broken_at}: {verdict.problem}")
    raise typer.Exit(0 if verdict.ok else 1)


@app.command()
def export(settings: SettingsFile = DEFAULT) -> None:
    """Every record with its hash, one JSON object a line, oldest first."""
    with open_from(settings).read() as connection:
        for record in chain.read(connection):
            typer.echo(json.dumps(record, sort_keys=True))
