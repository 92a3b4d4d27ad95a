"""What an agent that reads a shared file system says about the checkpoints there; all ages in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from remediator.model.base import Ours

MOST_KEYS = 500
MOST_AGES = 8
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


def _printable(text: str) -> str:
    """A file may have any name; what is stored and printed may not."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


Name = Annotated[str, Field(max_length=256), AfterValidator(_printable)]


class JobKey(Ours):
    """Whose checkpoints: what the glob's placeholders stood for, empty where it has none of that name."""

    job: Name = ""
    user: Name = ""
    jobname: Name = ""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self if value) or "any job"


class Checkpoints(Ours):
    """The checkpoints of one job: `ages` of the complete ones, newest first, `newest` is that one's name.

    `partial` ones are younger, unfinished, and nobody works on them; `writing`: somebody works on one.
    `save_s` is how long the last save took at least, `cadence_s` the usual time between two.
    """

    key: JobKey
    newest: Name = ""
    ages: tuple[Seconds, ...] = Field(default=(), max_length=MOST_AGES)
    save_s: Seconds | None = None
    cadence_s: Seconds | None = None
    partial: tuple[Name, ...] = Field(default=(), max_length=MOST_AGES)
    writing: bool = False


class CheckpointLook(Ours):
    """One look at all matches of a glob, so long ago; with a `problem` it says nothing about jobs."""

    glob: str = Field(min_length=1, max_length=1024)
    looked_s: Seconds
    problem: Name = ""
    found: tuple[Checkpoints, ...] = Field(default=(), max_length=MOST_KEYS)


@dataclass(frozen=True, slots=True)
class Saved:
    """What is known about a run's checkpoints; times are seconds since the epoch by our clock.

    `looked_at` is the last good look of any agent at the pool's glob, None without one. `known`: the run's
    job has been seen to save, or to try.
    """

    looked_at: float | None = None
    known: bool = False
    newest: str = ""
    times: tuple[float, ...] = ()
    save_s: float | None = None
    cadence_s: float | None = None
    partial: tuple[str, ...] = ()
    writing: bool = False

    @property
    def newest_at(self) -> float | None:
        """When the newest complete one was written."""
        return max(self.times, default=None)

    def last_before(self, at: float) -> float | None:
        """When the newest complete one was written that was there at that time."""
        return max((one for one in self.times if one <= at), default=None)


NOTHING_KNOWN = Saved()
