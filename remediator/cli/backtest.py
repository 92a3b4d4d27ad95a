"""`remediator policy backtest FILE` and `policy plan --since`: what a changed policy would have touched, and
what the present one. Changes nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from remediator.cli.screen import screen
from remediator.cli.store import DEFAULT, AsJson, SettingsFile, open_from
from remediator.clock import SystemClock, rfc3339
from remediator.errors import BadInput
from remediator.policy import rules
from remediator.policy.rules import BUILTIN, Rules
from remediator.run.recorded import recorded
from remediator.run.rehearsal import Touched, rehearse
from remediator.run.trace import Row, read
from remediator.settings import Settings, load

MINUTE_S = 60.0
UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0}
SHOWN = 200

PolicyPath = Annotated[
    Path,
    typer.Option(
        "--policy", help="The changed policy: a file, or a folder of them.", show_default="the one in place"
    ),
]
Overlay = Annotated[Path | None, typer.Option("--overlay", help="A site's overlay that goes with it.")]
All = Annotated[bool, typer.Option("--all", help="Also what both would do alike.")]


def backtest(
    file: Annotated[Path, typer.Argument(help="A trace in JSON lines (runbooks/traces.md).")],
    policy: PolicyPath = BUILTIN,
    overlay: Overlay = None,
    settings: SettingsFile = DEFAULT,
    everything: All = False,
    as_json: AsJson = False,
) -> None:
    """What a changed policy would have done about a recorded or exported trace. Changes nothing."""
    tree = load(settings, os.environ)
    try:
        with file.open("rb") as lines:
            rows = read(lines)
    except OSError as error:
        raise BadInput(str(file), f"cannot be read: {error.strerror}") from error
    _compare(rows, tree, rules.load(policy, overlay), everything=everything, as_json=as_json)


def plan(
    since: Annotated[str, typer.Option(help="How far back: 90m, 12h, 7d.")] = "7d",
    policy: PolicyPath = BUILTIN,
    overlay: Overlay = None,
    settings: SettingsFile = DEFAULT,
    everything: All = False,
    as_json: AsJson = False,
) -> None:
    """What a changed policy would have done about the signals that the store has. Changes nothing."""
    tree = load(settings, os.environ)
    store = open_from(settings)
    with store.read() as connection:
        rows = recorded(connection, SystemClock().now() - span_s(since))
    _compare(rows, tree, rules.load(policy, overlay), everything=everything, as_json=as_json)


def span_s(text: str) -> float:
    """Seconds of a span such as 90m, 12h or 7d."""
    found = re.fullmatch(r"([0-9]{1,5})([mhd])", text)
    if not found:
        raise BadInput("since", f"{text:.20} is no span; write 90m, 12h or 7d")
    return int(found[1]) * UNITS[found[2]]


def _compare(rows: Sequence[Row], tree: Settings, changed: Rules, *, everything: bool, as_json: bool) -> None:
    present = rules.load(overlay=tree.policy.overlay)
    before, after = (rehearse(rows, policy, tree) for policy in (present, changed))
    if as_json:
        found = {
            name: {"policy": policy.digest, "touched": [asdict(one) for one in touched], **totals(touched)}
            for name, policy, touched in (("present", present, before), ("changed", changed, after))
        }
        typer.echo(json.dumps({"rows": len(rows), **found}))
        return
    show(before, after, (present.digest, changed.digest), screen(), everything=everything)
    screen().print(f"{len(rows)} rows were judged twice; nothing was changed")


def totals(touched: Sequence[Touched]) -> dict[str, Any]:
    """Nodes, jobs and GPU-hours that would have been touched; how many incidents a limit would have held."""
    acted = [one for one in touched if one.does != "hold"]
    return {
        "nodes": sorted({one.node for one in acted if one.node}),
        "jobs": sorted({job for one in acted for job in one.jobs}),
        "gpu_hours": round(sum(one.gpu_hours for one in acted), 1),
        "held": len(touched) - len(acted),
    }


def show(
    before: Sequence[Touched],
    after: Sequence[Touched],
    digests: tuple[str, str],
    console: Console,
    *,
    everything: bool,
) -> None:
    """Side by side: the sums, then each incident that is not alike, oldest first."""
    sums = Table("", f"present {digests[0]}", f"changed {digests[1]}", box=None)
    left, right = totals(before), totals(after)
    for name in ("nodes", "jobs"):
        sums.add_row(name, str(len(left[name])), str(len(right[name])))
    sums.add_row(
        "GPU-hours since the last start of these jobs", str(left["gpu_hours"]), str(right["gpu_hours"])
    )
    sums.add_row("held by a limit", str(left["held"]), str(right["held"]))
    console.print(sums)
    pairs = _pairs(before, after)
    differ = [pair for pair in pairs if everything or _does(pair[0]) != _does(pair[1])]
    if differ:
        console.print(_incidents(differ))
    else:
        console.print("both would do the same")
    if len(differ) > SHOWN:
        console.print(f"and {len(differ) - SHOWN} more; --json has all of them")


Pair = tuple[Touched | None, Touched | None]


def _pairs(before: Sequence[Touched], after: Sequence[Touched]) -> list[Pair]:
    left, right = _by_place(before), _by_place(after)
    places = sorted({*left, *right}, key=lambda place: (place[1], place[0]))
    return [(left.get(place), right.get(place)) for place in places]


def _by_place(touched: Sequence[Touched]) -> Mapping[tuple[str, int], Touched]:
    """By node, or by job where no node is touched, and the minute it began in."""
    return {(one.node or f"job {one.jobs}", int(one.at // MINUTE_S)): one for one in touched}


def _incidents(pairs: Sequence[Pair]) -> Table:
    table = Table("when", "what", "present", "changed", "why", box=None)
    for left, right in pairs[:SHOWN]:
        one = right or left
        if one is not None:
            what = one.node or f"job {', '.join(map(str, one.jobs)) or '?'}"
            table.add_row(rfc3339(one.at)[:19], what, _does(left), _does(right), one.sentence)
    return table


def _does(one: Touched | None) -> str:
    if one is None:
        return "nothing"
    hours = f", {one.gpu_hours} GPU-hours" if one.jobs else ""
    jobs = f" ({len(one.jobs)} job{'s' if len(one.jobs) > 1 else ''}{hours})" if one.jobs else ""
    return f"{one.does}{jobs}"
