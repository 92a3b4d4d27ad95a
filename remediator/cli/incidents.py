"""`remediator incidents`: what happened to which machine and its jobs, for people."""

from __future__ import annotations

import json
from typing import Annotated, Any

import sqlalchemy as sa
import typer
from rich.table import Table

from remediator.audit import chain
from remediator.cli.screen import screen
from remediator.cli.store import DEFAULT, AsJson, SettingsFile, open_from
from remediator.cli.timeline import print_story, state_of
from remediator.clock import SystemClock, rfc3339
from remediator.errors import BadInput
from remediator.model.incident import COMMON_CAUSE, GIVE_BACK, Incident
from remediator.model.plan import StepRow
from remediator.store import incidents, steps
from remediator.workflow.downtime import Phase, job_phases, node_phases
from remediator.workflow.holds import oldest
from remediator.workflow.loss import Loss
from remediator.workflow.saved import stopped_at

app = typer.Typer(no_args_is_help=True, help="Incidents: list them, or show one as a timeline.")


@app.command("list")
def list_(
    settings: SettingsFile = DEFAULT,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """The newest incidents, newest first."""
    with open_from(settings).read() as connection:
        found = incidents.recent(connection, limit)
        ages = {one.id: _held_since(connection, one) for one in found if one.state == "held"}
    if as_json:
        typer.echo(json.dumps([incident.model_dump(mode="json") for incident in found]))
        return
    table = Table("incident", "node", "state", "cause", "opened", box=None)
    for incident in found:
        opened = rfc3339(incident.opened_at)
        state = state_of(incident.model_dump()) + ages.get(incident.id, "")
        table.add_row(incident.id, incident.node, state, incident.cause, opened)
    screen().print(table if found else "no incidents")


@app.command()
def show(incident_id: str, settings: SettingsFile = DEFAULT, as_json: AsJson = False) -> None:
    """One incident: why, what was done when, and what it cost each job."""
    with open_from(settings).read() as connection:
        story = story_of(connection, incident_id)
    if as_json:
        typer.echo(json.dumps(story))
        return
    print_story(story, screen(), SystemClock().now())


def _held_since(connection: sa.Connection, incident: Incident) -> str:
    since = oldest(steps.of_incident(connection, incident.id))
    return f" since {rfc3339(since)}" if since is not None else ""


def story_of(connection: sa.Connection, incident_id: str) -> dict[str, Any]:
    """Everything known about an incident as plain data; BadInput when there is none of this id."""
    incident = incidents.get(connection, incident_id)
    if incident is None:
        raise BadInput("incident", f"there is no incident {incident_id!r}; see `remediator incidents list`")
    rows = steps.of_incident(connection, incident_id)
    jobs = {run.key: f"job {run.address}" for run in steps.runs_seen(connection, incident_id)}
    return {
        "incident": incident.model_dump(mode="json"),
        "timeline": _timeline(connection, incident, jobs),
        "downtime": _downtime(incident, rows, connection),
        "losses": _losses(connection, incident, rows),
        "steps": [_step(row, jobs) for row in rows],
    }


def _timeline(connection: sa.Connection, incident: Incident, jobs: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "at": record["at"],
            "after": round(max(0.0, record["unix"] - incident.fault_at), 3),
            "action": record["action"],
            "what": record["outcome"] or record["action"],
            "step": _about(record["step"], record["subject"], jobs),
            "why": record["detail"].get("act") or record["why"],
        }
        for record in chain.read(connection, incident.id)
        if record["action"] != "incident-opened"  # says the same as the decision before it
    ]


def _about(step: str, subject: str, jobs: dict[str, str]) -> str:
    return " ".join(part for part in (step, jobs.get(subject, "")) if part)


def _step(row: StepRow, jobs: dict[str, str]) -> dict[str, Any]:
    return {
        "name": row.name,
        "subject": row.subject,
        "about": _about(row.name, row.subject, jobs),
        "state": row.state,
        "attempts": row.attempt,
        "sentence": row.sentence,
        "facts": row.facts,
        "since": row.started_at,
    }


def _downtime(
    incident: Incident, rows: list[StepRow], connection: sa.Connection
) -> dict[str, list[dict[str, Any]]]:
    out = {}
    if incident.plan not in {GIVE_BACK, COMMON_CAUSE}:
        out[incident.node] = _plain(node_phases(incident, rows))
    for run in steps.runs_seen(connection, incident.id):
        out[f"job {run.address}"] = _plain(job_phases(incident, rows, run.key))
    return out


def _losses(connection: sa.Connection, incident: Incident, rows: list[StepRow]) -> dict[str, dict[str, Any]]:
    """What each interrupted run had not saved; numbers that nobody knows are null."""
    counted = {row.subject: row.facts["loss"] for row in rows if "loss" in row.facts}
    stopped = {
        run.key: run
        for run in steps.runs_seen(connection, incident.id)
        if stopped_at(connection, incident, run) is not None
    }
    return {
        f"job {run.address}": counted.get(key) or Loss(gpus=run.gpus).facts for key, run in stopped.items()
    }


def _plain(phases: tuple[Phase, ...]) -> list[dict[str, Any]]:
    return [{"name": phase.name, "seconds": phase.seconds} for phase in phases]
