"""One incident on the screen: its head, its timeline in words, what it waits for, what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from remediator.cli.screen import span
from remediator.clock import rfc3339
from remediator.workflow.holds import HELD_SINCE
from remediator.workflow.loss import Loss

WORDS = {
    "intent": "does",
    "done": "done",
    "wait": "so far",
    "retry": "tries again",
    "ambiguous": "unsure",
    "hold": "held",
    "overridden": "yields",
    "decision": "decided",
    "job-run": "found",
    "spare-claimed": "took",
    "spare-refused": "let go",
    "overdue": "late",
    "condition-lost": "lost",
    "incident-held": "held",
    "incident-resumed": "goes on",
    "incident-closed": "ended",
    "still-held": "held",
    "hastened": "sooner",
    "incident-yields": "yields",
    "incident-overridden": "ended",
}
TRYING = frozenset({"intent", "wait", "retry", "ambiguous", "hold"})
ANEW = frozenset({"done", "overridden", "condition-lost"})
ENDED = ("closed", "overridden")
LONG_S = 60.0
STATES = {"yielding": "yielding to a human", "overridden": "overridden by human"}


def state_of(incident: dict[str, Any]) -> str:
    """An incident's state as people say it, with who holds it."""
    state = str(incident["state"])
    held = f" by {incident['held_by']}" if incident["held_by"] else ""
    return STATES.get(state, state) + held + (", dry run" if incident["dry_run"] else "")


def print_story(story: dict[str, Any], console: Console, now: float) -> None:
    """All of it."""
    head = story["incident"]
    console.print(Text.assemble((head["id"], "bold"), f"  {head['node']}  {state_of(head)}"))
    console.print(head["sentence"])
    console.print(_times(head, now))
    console.print(_timeline(story))
    for line in _present(story, now):
        console.print(line)
    for line in _losses(story):
        console.print(line)
    for title, phases in story["downtime"].items():
        if not phases:
            continue
        parts = ", ".join(f"{phase['name']} {phase['seconds']:.1f} s" for phase in phases)
        console.print(f"{title}: {sum(phase['seconds'] for phase in phases):.1f} s = {parts}")


def _times(head: dict[str, Any], now: float) -> str:
    asked = head["plan"] == "give-back"
    begin = f"{'asked' if asked else 'fault'} at {rfc3339(head['fault_at'])}"
    if head["state"] in ENDED and head["closed_at"] is not None:
        return f"{begin}, ended {span(head['closed_at'] - head['fault_at'])} later"
    return f"{begin}, open for {span(max(0.0, now - head['opened_at']))}"


def _timeline(story: dict[str, Any]) -> Table:
    table = Table("after", "step", "", "what", box=None)
    before = story["incident"]["sentence"]
    for line in _spoken(story["timeline"]):
        why = line["why"]
        if why == before and line["what"] == "decision":
            why = _decision(story["incident"])
        elif why == before:
            continue  # the same sentence about the step and then about the incident
        table.add_row(span(line["after"]), line["step"], _word(line), why)
        before = line["why"]
    return table


def _spoken(timeline: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What says something new. The last step says what the incident's end says after it; a step that tries
    the same once more, with the same result, has said so.
    """
    said: dict[str, set[tuple[str, str]]] = {}
    for line in timeline:
        step, what = line["step"], (str(line["what"]), str(line["why"]))
        if (step, line["what"]) == ("close", "done"):
            continue
        if line["what"] in ANEW:
            said.pop(step, None)
        if line["what"] in TRYING and what in said.setdefault(step, set()):
            continue
        said.setdefault(step, set()).add(what)
        yield line


def _decision(incident: dict[str, Any]) -> str:
    return f"plan {incident['plan']}, evidence of tier {incident['tier']}, rule {incident['rule']}"


def _word(line: dict[str, Any]) -> str:
    if line["action"] == "command":
        return "person" if line["what"] == "done" else "refused"
    return WORDS.get(line["what"], str(line["what"]))


def _losses(story: dict[str, Any]) -> Iterator[str]:
    """What was not saved; what nobody knows is said to be unknown."""
    for title, facts in story["losses"].items():
        loss = Loss(**{name: facts[name] for name in ("checkpoint", "before_s", "lost_s", "gpus")})
        yield f"{title}: {loss}"


def _present(story: dict[str, Any], now: float) -> Iterator[str]:
    """What an incident that has not ended is at: each step that was begun and is not done."""
    if story["incident"]["state"] in ENDED:
        return
    for step in story["steps"]:
        if step["state"] != "done" and step["sentence"]:
            word = "held" if step["state"] == "held" else "now"
            since = step["facts"].get(HELD_SINCE)
            age = f" (since {rfc3339(since)})" if since and word == "held" else _age(step, now)
            yield f"{word}: {step['about']}: {step['sentence']}{age}"


def _age(step: dict[str, Any], now: float) -> str:
    """For how long a step has waited, once that is worth saying."""
    waited = now - step["since"] if step["since"] is not None else 0.0
    return f" (for {span(waited)})" if waited >= LONG_S else ""
