"""Compares the ranks of running jobs: with each other, and each job with what it did before in this run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from remediator.clock import Clock
from remediator.errors import BadInput, Retry
from remediator.incidents.forensics import lay_over
from remediator.incidents.ranks import RECENT_S, compare, worth_asking
from remediator.model.ranks import KERNELS, TENSOR, WAITS, Finding, Work
from remediator.model.signal import Signal
from remediator.model.track import Track
from remediator.observe.metrics import Metrics
from remediator.run.forensics import tracks_before
from remediator.run.hosts import Hosts
from remediator.run.looks import Look, Submit
from remediator.signals.inquiry import Ask
from remediator.signals.rank_readings import TOGETHER, rank_readings
from remediator.signals.ranks import job_stalled, laid_over, straggler
from remediator.workflow.steps.survey import run_of
from slurm_bridge.model import JobRun, SlurmJob
from slurm_bridge.port import SlurmPort

EVERY_S = 120.0
SETTLE_S = 30.0  # until what was scraped can be asked for
LOOK_S = 60.0  # for one look: jobs that are left come first in the next one
HISTORY_S = 21_600.0  # of a run that is asked about its own past
AGAIN_S = 300.0  # until the hours of one job are asked for again
SAME_S = 600.0  # within which jobs stop together
DEADLINE_S = 5.0
ONE_BY_ONE = 50  # more new jobs than that are read with all the others
REREAD_S = 600.0


class RunningJobs:
    """Slurm's running batch jobs; the whole list is heavy, so a job is read once, and again at times."""

    def __init__(self, port: SlurmPort, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._known: dict[int, SlurmJob] = {}
        self._read_at = float("-inf")

    def now(self) -> list[SlurmJob]:
        """Those of now; one that was requeued a moment ago may be told as it was, so read it `again`."""
        states = self._port.job_states(deadline=DEADLINE_S)
        running = {job_id for job_id, state in states if state == "RUNNING"}
        if self._clock.steady() - self._read_at > REREAD_S:
            self._known, self._read_at = {}, self._clock.steady()
        new = sorted(running - self._known.keys())
        if len(new) > ONE_BY_ONE:
            fresh: Iterable[SlurmJob | None] = self._port.jobs(deadline=DEADLINE_S)
        else:
            fresh = [self._port.job(job_id, deadline=DEADLINE_S) for job_id in new]
        self._known |= {job.job_id: job for job in fresh if job is not None}
        self._known = {job_id: job for job_id, job in self._known.items() if job_id in running}
        return [job for job in self._known.values() if job.batch and job.state == "RUNNING"]

    def again(self, job: SlurmJob) -> SlurmJob | None:
        """The job as it is, if it still is the same run."""
        found = self._port.job(job.job_id, deadline=DEADLINE_S)
        same = found is not None and (found.run, found.nodes) == (job.run, job.nodes)
        return found if same and found is not None and found.state == "RUNNING" else None


class Ranks(Look):
    """Asks for the last minutes of every job, and for hours only where these leave room for a finding."""

    stage = "ranks"
    unseen = "running jobs are not compared with their past and their peers"

    def __init__(
        self,
        ask: Ask,
        port: SlurmPort,
        hosts: Hosts,
        submit: Submit,
        metrics: Metrics,
        clock: Clock,
        flat_s: float,
    ) -> None:
        super().__init__(submit, clock, EVERY_S)
        self._ask = ask
        self._jobs = RunningJobs(port, clock)
        self._hosts = hosts
        self._metrics = metrics
        self._flat_s = flat_s
        self._looked: dict[JobRun, float] = {}
        self._asked: dict[JobRun, tuple[float, Finding]] = {}

    def find(self) -> Sequence[Signal]:
        """Jobs that stand still and nodes that lag, as far as one look comes."""
        at, until = self.clock.now() - SETTLE_S, self.clock.steady() + LOOK_S
        works = self._works()
        try:
            found = self._findings(works, at, until)
        except (Retry, BadInput) as error:
            self._metrics.ranks_compared("unknown", "shape" if isinstance(error, BadInput) else "no-answer")
            raise
        for finding in found.values():
            self._metrics.ranks_compared(finding.outcome, finding.reason)
        return [*self._stalled(found, works, at), *self._stragglers(found, at)]

    def _works(self) -> dict[SlurmJob, Work]:
        """Jobs on nodes of pools, that which was looked at longest ago first."""
        jobs = sorted(self._jobs.now(), key=lambda job: (self._looked.get(job.run, 0.0), job.job_id))
        runs = {job.run for job in jobs}
        self._looked = {run: at for run, at in self._looked.items() if run in runs}
        self._asked = {run: asked for run, asked in self._asked.items() if run in runs}
        works = {job: self._work(job) for job in jobs if job.start_time is not None}
        return {job: work for job, work in works.items() if any(map(self._in_pool, work.nodes))}

    def _work(self, job: SlurmJob) -> Work:
        # A worker that is on no node is a node of the job all the same: one that nobody reads.
        nodes = tuple(dict.fromkeys(self._hosts.node_of(worker) or worker for worker in job.nodes))
        return Work(nodes, job.gpus, job.start_time or 0.0)

    def _in_pool(self, node: str) -> bool:
        machine = self._hosts.machine(node)
        return machine is not None and machine.pool is not None

    def _findings(self, works: Mapping[SlurmJob, Work], at: float, until: float) -> dict[SlurmJob, Finding]:
        nodes = list(dict.fromkeys(node for work in works.values() for node in work.nodes))
        recent = self._read(nodes, (TENSOR,), at, RECENT_S, until)
        found = {}
        for job, work in works.items():
            if self.clock.steady() > until or not recent.keys() >= set(work.nodes):
                continue
            self._looked[job.run] = self.clock.steady()
            found[job] = self._compare(job, work, [one for node in work.nodes for one in recent[node]], at)
        return found

    def _compare(self, job: SlurmJob, work: Work, recent: Sequence[Track], at: float) -> Finding:
        if not worth_asking(work, recent, at):
            return compare(work, recent, at, HISTORY_S)
        asked_at, finding = self._asked.get(job.run, (float("-inf"), Finding("works")))
        if self.clock.steady() - asked_at < AGAIN_S and finding.outcome in {"works", "unknown"}:
            return finding
        until = self.clock.steady() + LOOK_S
        reach = min(HISTORY_S, max(RECENT_S, at - work.began))
        read = self._read(work.nodes, (TENSOR, KERNELS, WAITS), at, reach, until)
        finding = compare(work, [one for tracks in read.values() for one in tracks], at, self._flat_s)
        self._asked[job.run] = self.clock.steady(), finding
        return finding

    def _read(
        self, nodes: Sequence[str], whats: Sequence[str], at: float, reach: float, until: float
    ) -> dict[str, list[Track]]:
        """By node, as far as the time reaches; a node that nobody reads has no track."""
        found: dict[str, list[Track]] = {}
        for begin in range(0, len(nodes), TOGETHER):
            if self.clock.steady() > until:
                break
            some = nodes[begin : begin + TOGETHER]
            found |= {node: [] for node in some}
            for track in rank_readings(self._ask, some, whats, at, reach):
                found[track.node].append(track)
        return found

    def _stalled(
        self, found: Mapping[SlurmJob, Finding], works: Mapping[SlurmJob, Work], at: float
    ) -> list[Signal]:
        """Each job is read once more: it may have been requeued since it was first seen to run."""
        still = [one.flat_s for one in found.values() if one.flat_s >= self._flat_s / 2]
        signals = []
        for job, finding in found.items():
            present = self._jobs.again(job) if finding.outcome == "stalled" else None
            if present is not None:
                together = sum(abs(flat_s - finding.flat_s) <= SAME_S for flat_s in still)
                told = job_stalled(run_of(present, frozenset()), finding, together, at)
                is_news = told.dedupe not in self._told
                signals.append(self._laid_over(told, works[job]) if is_news else told)
        return signals

    def _laid_over(self, stall: Signal, work: Work) -> Signal:
        """The stall with what its nodes did until it began: a hang often begins with a link or a GPU."""
        stopped = float(stall.detail["since"])
        try:
            tracks = tracks_before(self._ask, work.nodes, stopped, self.clock)
        except (Retry, BadInput):
            return laid_over(stall, "unknown: Prometheus does not answer", ())
        if tracks is None:
            return laid_over(stall, "unknown: Prometheus answers too slowly for so many nodes", ())
        verdict = lay_over(work.nodes, tracks, stopped)
        return laid_over(stall, verdict.says, verdict.nodes)

    def _stragglers(self, found: Mapping[SlurmJob, Finding], at: float) -> list[Signal]:
        signals = []
        for job, finding in found.items():
            present = self._jobs.again(job) if finding.outcome == "straggler" else None
            machine = self._hosts.machine(finding.node) if present else None
            if present is not None and machine is not None and machine.pool is not None:
                run = run_of(present, frozenset())
                signals.append(straggler(run, machine.name, machine.boot_id, finding, at))
        return signals
