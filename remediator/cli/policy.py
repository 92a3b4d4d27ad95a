"""`remediator policy`: is a policy sound, what does a code mean, do the cases hold. Needs no cluster."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from remediator.agent.kernel_log import parse
from remediator.cli import backtest
from remediator.cli.screen import screen
from remediator.cli.store import DEFAULT, AsJson, SettingsFile
from remediator.errors import BadInput
from remediator.policy import alerts as alert_rules
from remediator.policy import cases, rules
from remediator.policy.decide import MOVES_JOBS
from remediator.policy.explain import Explained, explain, explain_name
from remediator.policy.files import PolicyError
from remediator.policy.rule import Rule
from remediator.policy.warn import warnings
from remediator.settings import load
from remediator.signals import reporters

app = typer.Typer(
    no_args_is_help=True, help="Rules: check them, explain a code, try cases and traces on them."
)
Overlay = Annotated[
    Path | None,
    typer.Option(help="Site overlay, a file or folder; else that of the settings, if there are any."),
]


@app.command()
def check(
    path: Annotated[Path | None, typer.Argument(help="Site overlay, a file or folder of *.yaml.")] = None,
    alerts: Annotated[
        list[Path] | None, typer.Option(help="Prometheus rules, a file or folder, to be looked at as well.")
    ] = None,
    settings: SettingsFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Read rules and overlay as the service would; exit 0 (sound), 1 (a warning) or 2 (refused)."""
    overlay = _overlay(path, settings)
    try:
        found = rules.load(overlay=overlay)
        reporters.load(overlay=overlay)
        doubts = [*warnings(found), *alert_rules.warnings(alerts or ())]
    except BadInput as error:
        if not as_json:
            raise
        problems = error.problems if isinstance(error, PolicyError) else [error]
        typer.echo(json.dumps({"ok": False, "problems": [str(one) for one in problems], "warnings": []}))
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"ok": True, "problems": [], "warnings": doubts, **_summary(found)}))
    else:
        _show_check(found, overlay, doubts)
    raise typer.Exit(1 if doubts else 0)


@app.command("explain")
def explain_code(
    code: Annotated[
        str, typer.Argument(help="XID or SXid: 79, xid79, sxid 20034; or the name of a rule or kind.")
    ],
    overlay: Overlay = None,
    settings: SettingsFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """What a code is, what each vendor says, which rule speaks and why, and what the node may serve."""
    policy = rules.load(overlay=_overlay(overlay, settings))
    found = explain_name(policy, code.strip()) or explain(policy, *_table_and_code(code, policy))
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        _show(found, screen())


@app.command("test")
def try_cases(
    path: Annotated[
        Path | None, typer.Argument(help="Case file, or a folder of them; else those of the service.")
    ] = None,
    overlay: Overlay = None,
    settings: SettingsFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Try cases (facts in, decision and reason out) on the rules; exit 1 when one does not hold."""
    tried = list(
        cases.run(
            cases.load_cases(path or cases.FOLDER), rules.load(overlay=_overlay(overlay, settings)), parse
        )
    )
    failed = [one for one in tried if one.differs]
    if as_json:
        typer.echo(json.dumps([_verdict(one) for one in tried]))
    else:
        for one in failed:
            _show_difference(one, screen())
        screen().print(f"{len(tried) - len(failed)} of {len(tried)} cases hold")
    raise typer.Exit(1 if failed else 0)


app.command()(backtest.backtest)
app.command()(backtest.plan)


def _overlay(path: Path | None, settings: Path) -> Path | None:
    """The overlay that was named, else that of the settings; outside the pod there may be no settings."""
    if path is not None:
        return path
    return load(settings, os.environ).policy.overlay if settings.exists() else None


def _table_and_code(said: str, policy: rules.Rules) -> tuple[str, int]:
    """`sxid 20034` and `xid79` say themselves which they are; SXids have five digits, XIDs fewer."""
    found = re.fullmatch(r"(?P<table>s?xid)?[ -]?(?P<code>\d{1,9})", said.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        near = difflib.get_close_matches(said.strip(), [*policy.rules, *policy.kinds], n=1)
        more = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(
            "code", f"{said!r:.40} is no code, rule or kind; write 79, xid79, sxid20034 or gpu-hot{more}"
        )
    number = int(found["code"])
    return (found["table"] or ("sxid" if number >= 10_000 else "xid")).lower(), number


def _summary(found: rules.Rules) -> dict[str, Any]:
    dates = {name: head.catalogue for name, head in found.catalogue.heads.items()}
    sizes = {"rules": len(found.rules), "kinds": len(found.kinds), "policy": found.digest}
    return {**sizes, "catalogues": dates, "changes": list(_changes(found))}


def _changes(found: rules.Rules) -> Iterator[str]:
    """What an overlay makes of the rules that come with the service."""
    shipped = rules.load().rules
    for name in sorted(shipped.keys() | found.rules.keys()):
        before, after = shipped.get(name), found.rules.get(name)
        if after is None:
            yield f"removes {name}"
        elif before is None:
            yield f"adds {name}: {after.tier}, {after.plan}"
        elif before != after:
            yield f"changes {name}: {', '.join(_fields(before, after))}"


def _fields(before: Rule, after: Rule) -> Iterator[str]:
    """The fields that differ, with their values where these are words and no sentences."""
    for field, old in before.model_dump().items():
        new = getattr(after, field)
        if old != new:
            yield f"{field} {old} -> {new}" if field in {"tier", "plan", "timing", "page"} else field


def _show_check(found: rules.Rules, overlay: Path | None, doubts: list[str]) -> None:
    dates = ", ".join(f"{name} of {head.catalogue}" for name, head in found.catalogue.heads.items())
    typer.echo(f"ok: {len(found.rules)} rules about {len(found.kinds)} kinds, policy {found.digest}")
    typer.echo(f"overlay: {overlay or 'none'}; catalogues: {dates}")
    for change in _changes(found):
        typer.echo(f"  {change}")
    for doubt in doubts:
        typer.echo(f"warning: {doubt}")


def _show(found: Explained, console: Console) -> None:
    console.print(f"{found.what}: {found.meaning}")
    if found.vendors:
        table = Table("who", "says", box=None)
        for who, says in found.vendors.items():
            table.add_row(who, says)
        console.print(table)
    if found.disagreement:
        console.print(f"they disagree: {found.disagreement}")
    for rule in found.rules:
        condition = f" when {rule.when}" if rule.when else ""
        timing = f", {rule.timing}" if rule.plan in MOVES_JOBS else ""
        console.print(f"rule {rule.name} ({rule.place}): {rule.tier}, {rule.plan}{timing}{condition}")
        console.print(f"  {rule.cause}: {rule.does}")
        console.print(f"  why: {rule.why}")
        console.print(f"  source: {rule.source}")
        if rule.serves:
            console.print(f"  inference: {rule.serves}")
    if not found.rules:
        console.print(found.unruled)
    if found.source:
        console.print(f"source of the table: {found.source}")


def _show_difference(one: cases.Tried, console: Console) -> None:
    console.print(f"{one.place}: {one.case.name}")
    table = Table("", "expected", "found", box=None)
    for name, expected, found in one.differs:
        table.add_row(name, expected, found)
    console.print(table)
    console.print(f"  decided: {one.decision.sentence}")


def _verdict(one: cases.Tried) -> dict[str, Any]:
    differs = [{"field": name, "expected": wanted, "found": got} for name, wanted, got in one.differs]
    decision = one.decision.model_dump(mode="json")
    return {
        "case": one.case.name,
        "place": one.place,
        "holds": not differs,
        "differs": differs,
        "decision": decision,
    }
