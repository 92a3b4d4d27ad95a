"""The place kept for a job: its name, and which nodes may be in it."""

from __future__ import annotations

from collections.abc import Iterable

from remediator.model.incident import Incident
from remediator.model.run import JobRun
from slurm_bridge.model import SlurmJob

MINUTES = 15


def place_name(incident: Incident, run: JobRun) -> str:
    """The reservation of one run; unique, so that whoever finds it knows whose it is."""
    return f"remediator_{incident.id}_{run.address}"


def held_alone(run: JobRun, sick: Iterable[str], jobs: Iterable[SlurmJob]) -> tuple[str, ...]:
    """The run's healthy nodes that no other job is on: the only ones that may be kept for it."""
    shared = {node for job in jobs if job.holds_nodes and job.job_id != run.job_id for node in job.nodes}
    return tuple(node for node in run.nodes if node not in set(sick) | shared)
