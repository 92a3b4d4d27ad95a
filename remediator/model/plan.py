"""Steps as rows, and the six ways an attempt at one can end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Track = Literal["main", "job", "node", "back"]
Side = Literal["slurm", "kubernetes"]
StepState = Literal["pending", "running", "waiting", "held", "done"]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of one incident; `subject` is a job run's key on the job track, else empty."""

    incident: str
    name: str
    subject: str
    track: Track
    ordinal: int
    state: StepState
    attempt: int = 0
    due_at: float = 0.0
    started_at: float | None = None
    acted_at: float | None = None
    ended_at: float | None = None
    overdue: bool = False
    sentence: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """The step's condition is true in the world."""

    sentence: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is wrong: look again after `after` seconds. `patient`: somebody decided that this may take
    long, so the step's bound starts anew.
    """

    sentence: str
    after: float = 1.0
    facts: dict[str, Any] = field(default_factory=dict)
    patient: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """The attempt surely had no effect: try again after `after` seconds."""

    sentence: str
    after: float = 1.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """The act may have had its effect: look before anything else."""

    sentence: str
    after: float = 1.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Somebody else's right, or an answer nobody can give: wait for a person, look now and then."""

    sentence: str
    after: float = 10.0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Yield:
    """A person undid what we had set on this side: nothing more is written there, the incident ends."""

    sentence: str
    side: Side


Outcome = Done | Wait | Again | Unknown | Hold | Yield
