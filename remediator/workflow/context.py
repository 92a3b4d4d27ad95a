"""What a step may see and touch: its incident, its job run, and guarded ports."""

from __future__ import annotations

from dataclasses import dataclass, field

from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun


@dataclass(frozen=True)
class Context:
    """Everything one attempt gets; `known_runs` are the keys of the runs already on the books.

    `undrained` is what a check found without DRAIN, for the act right behind it.
    """

    incident: Incident
    row: StepRow
    now: float
    slurm: Scheduler
    nodes: Nodes
    run: JobRun | None = None
    known_runs: frozenset[str] = field(default_factory=frozenset)
    undrained: list[str] = field(default_factory=list)

    @property
    def the_run(self) -> JobRun:
        """The job run of a job-track step."""
        if self.run is None:
            raise LookupError(f"step {self.row.name} has no job run {self.row.subject}")
        return self.run
