"""One step, one incident, and a Slurm and a Kubernetes that look as the test says."""

from __future__ import annotations

from typing import Any

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.guard import open_guard
from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.workflow.context import Conduct, Context, Ports
from slurm_bridge.model import SlurmJob
from tests.fakes.kube import FakeCluster
from tests.fakes.slurm import FakeSlurm

OURS = "remediator: i1 XID 79"
RUN = JobRun(job_id=7, submit_time=100, restart_count=0, address="7", user="alice")
JOB = SlurmJob(
    job_id=7,
    state="RUNNING",
    submit_time=100,
    restart_count=0,
    user="alice",
    batch=True,
    requeue=True,
    nodes=("w-0", "w-1"),
)


class ScriptedSlurm(FakeSlurm):
    """A Slurm whose jobs are exactly those of the test; nodes are the fake's own."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock, nodes=("w-0", "w-1", "w-2"))
        self.listed: list[SlurmJob] = []
        self.started: list[int] = []

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """The job of this id, if the test listed it."""
        self._enter("job", str(job_id))
        return next((job for job in self.listed if job.job_id == job_id), None)

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """All the test listed."""
        self._enter("jobs", "")
        return tuple(self.listed)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """Written down only."""
        self.started.append(job_id)


class Bench:
    """What one step may see and touch."""

    def __init__(self, *, slurm_nodes: tuple[str, ...] = ("w-0",)) -> None:
        self.clock = ManualClock()
        self.slurm = ScriptedSlurm(self.clock)
        self.kube = FakeCluster(self.clock)
        self.uid = self.kube.add_node("gpu-0")
        self.incident = Incident(
            id="i1", key="k", node="gpu-0", node_uid=self.uid, boot_id="b", slurm_nodes=slurm_nodes,
            tier="T0", rule="r", cause="XID 79", plan="replace",
            fault_at=self.clock.now(), opened_at=self.clock.now(),
        )  # fmt: skip

    def see(self, **fields: Any) -> Context:
        """A context now; `fields` replace its row's columns, `run`, `runs` and `spare` its own."""
        guard = open_guard(self.clock)
        run, runs, spare = fields.pop("run", RUN), fields.pop("runs", ()), fields.pop("spare", None)
        row = StepRow(**({"incident": "i1", "name": "x", "subject": "", "track": "main"} | fields), ordinal=1,
                      state="running")  # fmt: skip
        ports = Ports(
            Scheduler(self.slurm, guard),
            Nodes(self.kube, guard),
            Spares(self.kube.spares, guard),
            Acceptance(self.kube.bench, guard),
        )
        return Context(self.incident, row, self.clock.now(), ports, Conduct(), run, runs, spare)

    def drain(self, *names: str, reason: str = OURS) -> None:
        """These nodes are drained with that reason; not counted as a write of the step."""
        for name in names:
            self.slurm.drain(name, reason, deadline=5.0)
        self.slurm.writes.clear()
