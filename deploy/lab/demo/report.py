"""The demo's last lines: what must hold, and the first thing that did not."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from deploy.lab.demo.story import Result


def problems(result: Result) -> Iterator[str]:
    """Everything that did not hold, most telling first; nothing when all is well."""
    trained, reference = result.trained, result.reference
    if trained["restarts"] != 1:
        yield f"requeue: the job was restarted {trained['restarts']} times, not once"
    if any(count != 1 for count in result.terms.values()):
        yield f"requeue: SIGTERM counts by rank are {result.terms}, not one each"
    if result.resumed_at < result.saved_at:
        yield f"resume: saved at step {result.saved_at}, but went on from step {result.resumed_at}"
    if trained["sha256"] != reference["sha256"]:
        yield "resume: the weights differ from those of the uninterrupted run"
    if not result.audit["ok"]:
        yield f"audit: record {result.audit['broken_at']}: {result.audit['problem']}"


def print_report(console: Console, result: Result) -> int:
    """Timeline's cost, the checks, PASS or the one line that says what failed; the exit status."""
    for title, phases in result.story["downtime"].items():
        parts = ", ".join(f"{phase['name']} {phase['seconds']:.1f} s" for phase in phases)
        total = sum(phase["seconds"] for phase in phases)
        console.print(f"{title}: {total:.1f} s = {parts}", highlight=False)
    trained, reference = result.trained, result.reference
    same = "==" if trained["sha256"] == reference["sha256"] else "!="
    console.print(f"weights: {trained['sha256']} {same} {reference['sha256']}", highlight=False)
    console.print(f"restarts: {trained['restarts']}, steps recomputed: {trained['steps_recomputed']}")
    state = "ok" if result.audit["ok"] else "broken"
    console.print(f"audit: {state} ({result.audit['records']} records)")
    failed = next(problems(result), None)
    console.print("[green]PASS[/green]" if failed is None else f"[red]FAIL[/red] {failed}", highlight=False)
    return 0 if failed is None else 1
