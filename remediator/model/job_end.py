"""How a batch job ended that did not end well; times in seconds since the epoch on slurmctld's clock."""

from __future__ import annotations

from remediator.model.base import Ours
from remediator.model.run import JobRun


class JobEnd(Ours):
    """One ended run. `job` names all runs and all tasks of one submission, `work` also its resubmissions.
    `remembered_s`: Slurm forgets it so long after its end; None when that is not known.
    """

    run: JobRun
    job: str
    work: str
    state: str
    code: int = 0
    signal: int = 0
    began: float | None = None
    ended: float
    remembered_s: float | None = None

    @property
    def how(self) -> str:
        """The end in a few words."""
        if self.state != "FAILED":
            return f"ended {self.state}"
        return f"was ended by signal {self.signal}" if self.signal else f"exited with code {self.code}"
