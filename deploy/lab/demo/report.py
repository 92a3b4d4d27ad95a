"""The demo's last page: a timeline by track, what it cost, and the promises one by one."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from deploy.lab.demo.screen import Screen
from deploy.lab.demo.verdict import Result, problems, waited

JOB_STEPS = ("hold-place", "release-jobs", "start-jobs", "prove-resume", "free-place")
NODE_STEPS = (
    "drain-slurm",
    "fence-node",
    "claim-spare",
    "validate-spare",
    "evict-pods",
    "detach-node",
    "admit-spare",
    "rejoin-slurm",
)


def print_report(screen: Screen, result: Result) -> int:
    """All of it, with PASS or the one line that says what failed at the end; the exit status."""
    screen.chapter("What happened when")
    screen.table(_timeline(result))
    screen.chapter("What it cost")
    for title, phases in result.story["downtime"].items():
        parts = ", ".join(f"{phase['name']} {phase['seconds']:.1f} s" for phase in phases)
        screen.result(title, f"{sum(phase['seconds'] for phase in phases):.1f} s = {parts}")
    screen.chapter("What holds")
    for name, text in promises(result):
        screen.result(name, text)
    broken = next(problems(result), None)
    if broken is None:
        screen.passed()
        return 0
    screen.failed(broken)
    return 1


def _timeline(result: Result) -> Table:
    job = f"job {result.victim.address}"
    table = Table("after", job, f"{result.sick_node} and its spare", box=None, header_style="dim")
    table.add_row("0.0 s", "", "a GPU falls off the bus")
    for line in result.story["timeline"]:
        name = line["step"].partition(" ")[0]
        if line["what"] == "done" and name in JOB_STEPS + NODE_STEPS:
            cells = (line["why"], "") if name in JOB_STEPS else ("", line["why"])
            table.add_row(f"{line['after']:.1f} s", *cells)
    ended, started = (at - result.fault_at for at in (result.victim.ended_at, result.older.started_at))
    table.add_row(f"{ended:.0f} s", f"{job} is {result.victim.state}", "")
    table.add_row(f"{started:.0f} s", f"older job {result.older.address} runs", "")
    return table


def promises(result: Result) -> Iterator[tuple[str, str]]:
    """Each promise's name with what was seen of it."""
    trained, reference = result.trained, result.reference
    same = "==" if trained["sha256"] == reference["sha256"] else "!="
    yield "weights", f"{trained['sha256']} {same} {reference['sha256']}"
    yield "restarts", f"{trained['restarts']}, steps recomputed: {trained['steps_recomputed']}"
    yield "spare", f"{result.worker_is_on} in for {result.sick_node}"
    yield "queue", _queue(result)
    untouched = [bystander.what for bystander in result.bystanders if not bystander.harm]
    yield "untouched", ", ".join(untouched) or "none"
    state = "ok" if result.audit["ok"] else "broken"
    yield "audit", f"{state} ({result.audit['records']} records)"


def _queue(result: Result) -> str:
    older, victim = result.older, result.victim
    if older.started_at <= victim.started_at:
        return f"job {older.address} (older) ran before job {victim.address} was back"
    left = (
        f"reservation {', '.join(result.reservations)} is left"
        if result.reservations
        else "no reservation left"
    )
    return (
        f"job {victim.address} came back first, {left}, "
        f"job {older.address} (older) started {waited(result)} s after the nodes were free"
    )
