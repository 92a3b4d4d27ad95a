"""The sentences people get: job owners about their job, operators about what waits for them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.model.faults import JOB_STALLED
from remediator.model.incident import HOLD_JOB, RESTART_JOB, SILENT_NODE, Incident
from remediator.model.message import Message
from remediator.model.plan import Side, StepRow, Yield
from remediator.model.run import JobRun
from remediator.model.timing import CAP_S
from remediator.store import outbox


def post(connection: sa.Connection, incident: Incident, message: Message, now: float) -> None:
    """Put a message into the outbox; in a dry run only operators get it, and it says so."""
    if incident.dry_run:
        if message.audience != "operators":
            return
        message = message.model_copy(update={"urgency": "tell", "text": f"dry run: {message.text}"})
    outbox.put(connection, incident.id, [message], now)


_SIDES: dict[Side, tuple[str, str]] = {
    "slurm": ("Slurm on its node", "Kubernetes"),
    "kubernetes": ("Kubernetes on its node", "Slurm"),
}


def breaker(state: str, why: str) -> Message:
    """A breaker moved; it pages when it opens."""
    return Message(audience="operators", urgency="page" if state == "open" else "tell", text=why)


def look(why: str) -> Message:
    """Something is wrong, nothing is done about it by itself."""
    return Message(audience="operators", urgency="page", text=why)


def slow_save(user: str, why: str) -> Message:
    """Should the job have to leave its node, it could not save in time."""
    text = (
        f"Your job may lose work if its node fails: {why} when it is told to leave. Save asynchronously, or "
        f"more often."
    )
    return Message(audience=f"user:{user}", urgency="tell", text=text)


def to_owner(incident: Incident, run: JobRun) -> Message:
    """What happens to somebody's job, and what the owner can do."""
    job = _named(run)
    if incident.plan == RESTART_JOB and run.held_because:
        text = (
            f"Your {job} {_what(incident)} ({incident.cause}). It is requeued and waits, held, because "
            f"{run.held_because}. When you have looked why: `scontrol release {run.address}`."
        )
    elif incident.plan == RESTART_JOB:
        given = "it gets SIGTERM, time to save, and" if incident.rule == JOB_STALLED else "it"
        text = f"Your {job} {_what(incident)} ({incident.cause}): {given} is restarted under the same id."
    elif incident.plan == HOLD_JOB:
        text = (
            f"Your {job} lost its node ({incident.cause}) and had no time to save. It is held, and restarts "
            f"under the same id once its old processes are surely gone."
        )
    elif run.release == "tell-only":
        text = (
            f"{incident.node} under your {job} is failing ({incident.cause}). The job is left alone "
            f"because {run.why}; save what you can and end it, its node waits for that."
        )
    elif incident.rule == SILENT_NODE:
        text = (
            f"{incident.node} under your {job} is silent ({incident.cause}), so the job cannot be told to "
            f"save. {_after_silence(run)}"
        )
    elif run.held_because:
        text = (
            f"{incident.node} under your {job} is failing ({incident.cause}). The job gets SIGTERM and time "
            f"to save; then it waits, held, because {run.held_because}. When you have looked why: "
            f"`scontrol release {run.address}`."
        )
    else:
        text = (
            f"{incident.node} under your {job} is failing ({incident.cause}). {_given_time(incident)}The job "
            f"gets SIGTERM, time to save, and is restarted once on other nodes under the same id."
        )
    return Message(audience=f"user:{run.user or 'unknown'}", urgency="tell", text=text)


def _what(incident: Incident) -> str:
    return "computes nothing any more" if incident.rule == JOB_STALLED else "crashed"


def _given_time(incident: Incident) -> str:
    if incident.timing == "at-job-end":
        return "It is not bad enough to stop the job: it runs on; should that change: "
    if incident.timing == "at-checkpoint":
        return f"The job runs on until it has saved next, {CAP_S / 60:.0f} min at the longest. Then: "
    return ""


def _after_silence(run: JobRun) -> str:
    if run.held_because:
        held = f"It is requeued and waits, held, because {run.held_because}"
        return f"{held}. When you have looked why, an operator lets it go: `scontrol release {run.address}`."
    return (
        "It is restarted once on other nodes under the same id: when its old processes are gone, else after "
        "Slurm's own delay, unless your site holds it until then."
    )


def capped(incident: Incident, run: JobRun) -> Message:
    """A job may be what makes machines fail: somebody should look before it gets another one."""
    text = f"incident {incident.id}: job {run.address} of {run.user or 'unknown'} is held: {run.held_because}"
    return Message(audience="operators", urgency="tell", text=text)


def stranded(incident: Incident, address: str, user: str) -> Message:
    """A waiting job asks for a Slurm node by name that does not come back."""
    names = ", ".join(incident.slurm_nodes)
    text = (
        f"Your job {address} asks for {names} by name, which does not come back: change it, or it waits on."
    )
    return Message(audience=f"user:{user or 'unknown'}", urgency="tell", text=text)


def left_failed(run: JobRun, why: str) -> Message:
    """A job that crashed, or stands still, is not restarted: its owner may want to do something about it."""
    return Message(
        audience=f"user:{run.user or 'unknown'}", urgency="tell", text=f"Your {_named(run)}: {why}."
    )


def _named(run: JobRun) -> str:
    return f"job {run.address} ({run.name})" if run.name else f"job {run.address}"


def back(incident: Incident, run: JobRun, row: StepRow) -> Message:
    """The job computes again, or has ended."""
    text = f"{row.sentence} after {incident.cause} on {incident.node}."
    return Message(audience=f"user:{run.user or 'unknown'}", urgency="tell", text=text)


def held(incident: Incident, why: str) -> Message:
    """An incident waits for a person."""
    text = f"incident {incident.id} on {incident.node} ({incident.cause}) is held: {why}"
    return Message(audience="operators", urgency="page", text=text)


def still_held(incident: Incident, row: StepRow, seconds: float) -> Message:
    """Nobody has lifted a hold for long; it waits on."""
    text = (
        f"incident {incident.id} on {incident.node} ({incident.cause}) has been held for "
        f"{seconds / 60:.0f} min: {row.sentence}"
    )
    return Message(audience="operators", urgency="page", text=text)


def overridden(incident: Incident, found: Yield, signalled: Sequence[str]) -> Message:
    """A person stepped in: what is still done, and which jobs had their signal before."""
    there, other = _SIDES[found.side]
    jobs = (
        f"jobs {', '.join(signalled)} were asked to save before" if signalled else "no job was asked to save"
    )
    text = (
        f"incident {incident.id} on {incident.node} ({incident.cause}) is overridden by human: "
        f"{found.sentence}. Nothing more is written in {there}; what we set in {other} is taken back; {jobs}"
    )
    return Message(audience="operators", urgency="page", text=text)


def left_alone(incident: Incident, run: JobRun) -> Message:
    """Their job was to be moved and now is not."""
    text = (
        f"an operator has put {incident.node} back into service: your job {run.address} was not touched and "
        f"runs on there. Should it fail after all ({incident.cause}), resubmit it from its last checkpoint."
    )
    return Message(audience=f"user:{run.user or 'unknown'}", urgency="tell", text=text)


def called_off(incident: Incident, run: JobRun) -> Message:
    """Their job was to be moved and now need not be."""
    text = (
        f"what was seen on {incident.node} ({incident.cause}) has passed: your job {run.address} was not "
        f"touched and runs on there."
    )
    return Message(audience=f"user:{run.user or 'unknown'}", urgency="tell", text=text)


def spare_retired(incident: Incident, why: str) -> Message:
    """A spare failed its acceptance test; nobody takes it until a person has looked."""
    return Message(audience="operators", urgency="page", text=f"incident {incident.id}: {why}")


def overdue(incident: Incident, row: StepRow) -> Message:
    """A step passed its bound; nothing is skipped because of it."""
    text = (
        f"incident {incident.id} on {incident.node}: {row.name} takes longer than it should: {row.sentence}"
    )
    return Message(audience="operators", urgency="page", text=text)


def closed(incident: Incident, why: str) -> Message:
    """An incident came to its end."""
    return Message(audience="operators", urgency="tell", text=f"incident {incident.id}: {why}")
