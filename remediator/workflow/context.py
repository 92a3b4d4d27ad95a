"""What a step may see and touch: its incident, its job run, and guarded ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.model.checkpoint import NOTHING_KNOWN, Saved
from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.policy.vetoes import NO_REPLACE, PROTECTED, Protected
from remediator.workflow.judged import Early
from remediator.workflow.together import Together, in_order
from slurm_bridge.model import SlurmConfig

GoOn = Callable[[], None]
NoSpare = Literal["go-on", "wait", "page"]


def stay() -> None:
    """No step goes straight after this one."""


@dataclass(frozen=True)
class Conduct:
    """What the site's settings say about how far steps may go."""

    no_replace_label: str = NO_REPLACE
    protected: tuple[Protected, ...] = PROTECTED
    no_spare: NoSpare = "wait"
    maintenance_soon_s: float = 3600.0
    no_spare_of: Mapping[str, NoSpare] = field(default_factory=dict)
    pools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hold_until_fenced: frozenset[str] = frozenset()

    def when_no_spare(self, pool: str) -> NoSpare:
        """The pool's own policy, else everybody's."""
        return self.no_spare_of.get(pool, self.no_spare)


@dataclass(frozen=True)
class Ports:
    """The doors to the outside, each behind the guard."""

    slurm: Scheduler
    nodes: Nodes
    spares: Spares
    acceptance: Acceptance


@dataclass(frozen=True)
class Watched:
    """What the watches show of a node and of the worker pods on it, and Slurm's settings as last read; by
    default nothing. It may be behind: good for a write of that very version only, to know what to ask for,
    and for what may be old.
    """

    node: Callable[[str], NodeView | None] = lambda _name: None
    workers: Callable[[str], Sequence[PodView]] = lambda _name: ()
    slurm: Callable[[], SlurmConfig | None] = lambda: None


@dataclass(frozen=True)
class Context:
    """Everything one attempt gets; `runs` are the job runs already on the books, `early` was asked for before
    the INTENT was committed. `go_on` takes the step that goes straight after this one's write, which has it
    on its `straight_on`. `saved` and `stopped_at` are of `run`, and known to the steps that read checkpoints.
    """

    incident: Incident
    row: StepRow
    now: float
    ports: Ports
    conduct: Conduct
    run: JobRun | None = None
    runs: tuple[JobRun, ...] = ()
    spare: Spare | None = None
    taken_spares: Mapping[str, str] = field(default_factory=dict)
    together: Together = in_order
    go_on: GoOn = stay
    straight_on: bool = False
    early: Early | None = None
    watched: Watched = field(default_factory=Watched)
    saved: Saved = NOTHING_KNOWN
    stopped_at: float | None = None

    @property
    def slurm(self) -> Scheduler:
        """Slurm, behind the guard."""
        return self.ports.slurm

    @property
    def nodes(self) -> Nodes:
        """Kubernetes nodes and pods, behind the guard."""
        return self.ports.nodes

    @property
    def spares(self) -> Spares:
        """The spare pool, behind the guard."""
        return self.ports.spares

    @property
    def acceptance(self) -> Acceptance:
        """Acceptance tests, behind the guard."""
        return self.ports.acceptance

    @property
    def known_runs(self) -> frozenset[str]:
        """Keys of the runs already on the books."""
        return frozenset(run.key for run in self.runs)

    @property
    def the_run(self) -> JobRun:
        """The job run of a job-track step."""
        if self.run is None:
            raise LookupError(f"step {self.row.name} has no job run {self.row.subject}")
        return self.run

    @property
    def the_spare(self) -> Spare:
        """The spare of a step that comes after its claim."""
        if self.spare is None:
            raise LookupError(f"step {self.row.name} has no spare")
        return self.spare
