"""Where the time of a sample went, from the controller's own record; medians."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remediator.audit import chain
from remediator.model.incident import Incident
from remediator.model.signal import Signal
from remediator.store import incidents, signals
from remediator.store.engine import open_read_only
from tests.bench.figures import percentile

READ, PUSH, INTAKE, DECIDE, ACT = (
    "agent reads the line",
    "push until parsed",
    "intake commit",
    "deciding turn and admission",
    "INTENT commit, GET, POST",
)


@dataclass(frozen=True)
class Moment:
    """A sample as seen from outside: on which node, from when to when (seconds since 1970)."""

    node: str
    began: float
    drained: float


@dataclass(frozen=True)
class Marks:
    """The same from inside: the signal, the decision, and the last INTENT before the DRAIN."""

    seen: float
    received: float
    opened: float
    handed_out: float


def phases(store: Path, moments: Mapping[str, Sequence[Moment]]) -> dict[str, str]:
    """For each kind of sample one line: median milliseconds by phase, the longest first."""
    known = _marks(store)
    return {kind: _line(known, rows) for kind, rows in moments.items() if rows}


def _line(known: Mapping[str, Sequence[Marks]], moments: Sequence[Moment]) -> str:
    found = [
        (moment, marks)
        for moment in moments
        for marks in known.get(moment.node, ())
        if moment.began <= marks.received and marks.opened <= moment.drained
    ]
    stretches = {
        READ: [marks.seen - moment.began for moment, marks in found],
        PUSH: [marks.received - marks.seen for _, marks in found],
        INTAKE: [marks.opened - marks.received for _, marks in found],
        DECIDE: [marks.handed_out - marks.opened for _, marks in found],
        ACT: [moment.drained - marks.handed_out for moment, marks in found],
    }
    medians = {name: 1000 * percentile(values, 50) for name, values in stretches.items() if values}
    ordered = sorted(medians.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {value:.1f}" for name, value in ordered if value >= 0.05)


def _marks(path: Path) -> dict[str, list[Marks]]:
    """By node, of every incident in the store whose drain was handed out."""
    store = open_read_only(f"sqlite:///{path}")
    found: dict[str, list[Marks]] = {}
    with store.read() as connection:
        handed_out = _intents(chain.read(connection))
        for incident in incidents.recent(connection, limit=100_000):
            evidence = signals.of_incident(connection, incident.id)
            if evidence and incident.id in handed_out:
                marks = _of(incident, evidence[0], handed_out[incident.id])
                found.setdefault(incident.node, []).append(marks)
    store.close()
    return found


def _of(incident: Incident, signal: Signal, handed_out: float) -> Marks:
    return Marks(signal.seen_at, signal.received_at, incident.opened_at, handed_out)


def _intents(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """When the first DRAIN of each incident was about to be sent."""
    found: dict[str, float] = {}
    for record in records:
        if (record["action"], record["step"]) == ("intent", "drain-slurm"):
            found.setdefault(record["incident"], record["unix"])
    return found
