"""Sabotage on request: each `DEMO_BREAK=...` must make the demo fail and name what was broken."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

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
    SPARE = "spare"
    QUEUE = "queue"
    AUDIT = "audit"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Break:
        """The break DEMO_BREAK names; ValueError says which there are."""
        text = environ.get("DEMO_BREAK", "")
        try:
            return cls(text)
        except ValueError:
            names = ", ".join(one for one in cls if one)
            raise ValueError(f"DEMO_BREAK={text!r}: use one of {names}, or unset it") from None


def requeue_again(lab: Lab, job: str) -> None:
    """Somebody requeues the job a second time."""
    lab.slurm("scontrol", "requeue", job)


def cordon(lab: Lab, spare: str) -> None:
    """Somebody cordons the only spare."""
    lab.kubectl("cordon", spare)


def give_the_place_away(lab: Lab, job: str, place: str) -> None:
    """Somebody takes the job out of the reservation that keeps its place, and deletes it."""
    lab.slurm("scontrol", "update", f"jobid={job}", "reservationname=")
    lab.slurm("scontrol", "delete", f"reservationname={place}")


def tamper_with_the_record(lab: Lab) -> None:
    """Somebody who holds the file changes one record."""
    lab.kubectl("-n", "slurm", "exec", "deploy/remediator", "--", "python3", "-c", _TAMPER)
