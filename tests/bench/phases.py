"""Where the time of a sample went, from the controller's own record; medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from remediator.store import incidents, signals
from remediator.store.engine import open_read_only
from tests.bench.ctldlog import Drain
from tests.bench.figures import percentile

READ, PUSH, INTAKE, TURN, SLURM = (
    "agent reads the line",
    "push until parsed",
    "intake commit",
    "deciding turn until slurmctld is asked for the node",
    "commit meanwhile, GET answered, POST",
)


@dataclass(frozen=True)
class Moment:
    """A sample as seen from outside: on which node, from when (seconds since 1970) to which DRAIN."""

    node: str
    began: float
    drain: Drain


@dataclass(frozen=True)
class Marks:
    """The same from inside: when the agent saw the line, when its push was parsed, when it was decided."""

    seen: float
    received: float
    opened: float


def phases(store: Path, moments: Mapping[str, Sequence[Moment]]) -> dict[str, str]:
    """For each kind of sample one line: median milliseconds by phase, the longest first."""
    known = _marks(store)
    return {kind: _line(known, rows) for kind, rows in moments.items() if rows}


def _line(known: Mapping[str, Sequence[Marks]], moments: Sequence[Moment]) -> str:
    found = [
        (moment, marks)
        for moment in moments
        for marks in known.get(moment.node, ())
        if moment.began <= marks.received and marks.opened <= moment.drain.at
    ]
    stretches = {
        READ: [marks.seen - moment.began for moment, marks in found],
        PUSH: [marks.received - marks.seen for _, marks in found],
        INTAKE: [marks.opened - marks.received for _, marks in found],
        TURN: [(moment.drain.asked_at or moment.drain.at) - marks.opened for moment, marks in found],
        SLURM: [moment.drain.at - (moment.drain.asked_at or moment.drain.at) for moment, _ in found],
    }
    medians = {name: 1000 * percentile(values, 50) for name, values in stretches.items() if values}
    ordered = sorted(medians.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {value:.1f}" for name, value in ordered if value >= 0.05)


def _marks(path: Path) -> dict[str, list[Marks]]:
    """Of every incident in the store, by node."""
    store = open_read_only(f"sqlite:///{path}")
    found: dict[str, list[Marks]] = {}
    with store.read() as connection:
        for incident in incidents.recent(connection, limit=100_000):
            evidence = signals.of_incident(connection, incident.id)
            if evidence:
                marks = Marks(evidence[0].seen_at, evidence[0].received_at, incident.opened_at)
                found.setdefault(incident.node, []).append(marks)
    store.close()
    return found
