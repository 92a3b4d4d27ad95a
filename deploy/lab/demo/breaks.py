"""Sabotage on request: `DEMO_BREAK=resume|requeue|audit` must make the demo fail and name it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from deploy.lab.api import Lab

_TAMPER = """
import sqlite3
db = sqlite3.connect("/var/lib/remediator/remediator.db")
db.execute("DROP TRIGGER audit_no_update")
db.execute("UPDATE audit SET body = replace(body, 'gpu-', 'cpu-') WHERE seq = 3")
db.commit()
"""


class Break(StrEnum):
    """What is broken on purpose."""

    NOTHING = ""
    RESUME = "resume"
    REQUEUE = "requeue"
    AUDIT = "audit"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Break:
        """The break DEMO_BREAK names; ValueError says which there are."""
        text = environ.get("DEMO_BREAK", "")
        try:
            return cls(text)
        except ValueError:
            raise ValueError(f"DEMO_BREAK={text!r}: use resume, requeue or audit, or unset it") from None


def lose_checkpoints(run: Path) -> None:
    """Every checkpoint is gone before the job starts again."""
    for checkpoint in run.glob("checkpoint-*.json"):
        checkpoint.unlink(missing_ok=True)


def requeue_again(lab: Lab, job: str) -> None:
    """Somebody requeues the job a second time."""
    lab.slurm("scontrol", "requeue", job)


def tamper_with_the_record(lab: Lab) -> None:
    """Somebody who holds the file changes one record."""
    lab.kubectl("-n", "slurm", "exec", "deploy/remediator", "--", "python3", "-c", _TAMPER)
