"""What slurmctld does by itself, in memory and virtual time: nodes, jobs, reservations and a scheduler.

Jobs take whole nodes. Time moves with the clock; `settle` lets everything due happen.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from remediator.clock import Clock
from slurm_bridge.model import ExitInfo, Reservation, SlurmJob, SlurmNode
from slurm_bridge.states import JOB_ALIVE

REQUEUE_DELAY = 121.0
START_LAG = 1.0  # the scheduler looks once a second
RESUME_LAG = 4.0  # NOT_RESPONDING after a resume
FROZEN_END = 0.5  # a suspended job is killed, not asked
IDLE_LAG = 5.0  # the operator sees a worker that moved
TERMINATING = "slurm-operator: Pod is terminating"
HELD_BY_REQUEUE = "JobHeldUser"  # what its owner may release


@dataclass
class Job:
    """A job's record (in `seen`) and what its processes do."""

    seen: SlurmJob
    width: int = 1
    save: float = 1.0
    seconds: float = inf
    exit_code: int = 0
    ends_at: float = inf
    gone_at: float = inf
    fails_at: float = inf
    restart_at_end: bool = False
    no_kill: bool = False
    frozen: bool = False
    saved: bool = False
    members: list[int] = field(default_factory=list)


State = tuple[dict[str, SlurmNode], dict[int, Job], dict[str, Reservation]]


class Ctld:
    """A slurmctld with its slurmds, and what tests do to them."""

    def __init__(self, clock: Clock, nodes: Sequence[str], kill_wait: int) -> None:
        self.clock = clock
        self.kill_wait = kill_wait
        self._started_at = int(clock.now())
        self._nodes = {name: _new_node(name, clock.now()) for name in nodes}
        self._jobs: dict[int, Job] = {}
        self._reservations: dict[str, Reservation] = {}
        self._silent_until: dict[str, float] = {}
        self._idle_at: dict[str, float] = {}
        self._next_id = 1
        self._undo: deque[State] = deque(maxlen=8)

    # what users do

    def submit(
        self,
        seen: SlurmJob,
        *,
        width: int = 1,
        save: float = 1.0,
        seconds: float = inf,
        exit_code: int = 0,
        no_kill: bool = False,
    ) -> int:
        """Queue a job like `seen`: `width` nodes, `save` seconds from TERM to exit, `seconds` of work."""
        now = self.clock.now()
        job_id = self._take_id()
        seen = replace(seen, job_id=job_id, state="PENDING", submit_time=int(now), begin_time=now)
        self._jobs[job_id] = Job(seen, width, save, seconds, exit_code, no_kill=no_kill)
        return job_id

    def submit_array(self, seen: SlurmJob, tasks: Sequence[int], *, save: float = 1.0) -> int:
        """Queue an array; the last task carries the array's own id, as in Slurm."""
        array_id = self._next_id
        ids = [array_id + 1 + i for i in range(len(tasks) - 1)] + [array_id]
        for job_id, task in zip(ids, tasks, strict=True):
            self._next_id = job_id
            self.submit(replace(seen, array_job_id=array_id, array_task_id=task), save=save)
        self._next_id = array_id + len(tasks)
        return array_id

    def submit_het(self, seen: SlurmJob, members: int, *, save: float = 1.0) -> int:
        """Queue a heterogeneous job; the leader has the first id."""
        leader = self._next_id
        for offset in range(members):
            self.submit(replace(seen, het_job_id=leader, het_job_offset=offset), save=save)
        self._jobs[leader].members = list(range(leader + 1, leader + members))
        return leader

    def delay(self, job_id: int, seconds: float) -> None:
        """Let a waiting job begin no earlier than in `seconds`, as `--begin` does."""
        job = self._jobs[job_id]
        job.seen = replace(job.seen, begin_time=self.clock.now() + seconds)

    def comment(self, job_id: int, text: str) -> None:
        """Its owner says something about it."""
        job = self._jobs[job_id]
        job.seen = replace(job.seen, comment=text)

    def cancel(self, job_id: int) -> None:
        """End a job at once."""
        self._end(self._jobs[job_id], "CANCELLED")

    def fail(self, job_id: int, code: int = 1) -> None:
        """Its batch script exits with this code now."""
        self._exit(self._jobs[job_id], code)

    def hold(self, job_id: int) -> None:
        """An administrator holds it: a running job runs on, its next run does not start."""
        job = self._jobs[job_id]
        job.seen = replace(job.seen, held=True, state_reason="JobHeldAdmin")

    def release(self, job_id: int) -> None:
        """Its owner releases it (`scontrol release`), which Slurm refuses for an administrator's hold."""
        job = self._jobs[job_id]
        if job.seen.state_reason == HELD_BY_REQUEUE:
            job.seen = replace(job.seen, held=False, state_reason="BeginTime")

    def suspend(self, job_id: int) -> None:
        """Its processes are stopped; Slurm shows priority 0."""
        job = self._jobs[job_id]
        job.seen = replace(job.seen, state="SUSPENDED", held=True)
        job.frozen = True

    def shrink(self, job_id: int, node: str) -> None:
        """Its owner gives one node back (`scontrol update numnodes`)."""
        job = self._jobs[job_id]
        job.seen = replace(job.seen, nodes=tuple(name for name in job.seen.nodes if name != node))

    def requeue_by_owner(self, job_id: int) -> None:
        """`scontrol requeue`, which Slurm refuses for a job that is pending already."""
        self.settle()
        job = self._jobs[job_id]
        if job.seen.state in {"RUNNING", "SUSPENDED"}:
            self._begin_requeue(job)

    def has_saved(self, job_id: int) -> bool:
        """Whether its last requeue left it the time to save."""
        self.settle()
        return self._jobs[job_id].saved

    def forget(self, job_id: int) -> None:
        """MinJobAge has passed: the record is gone."""
        del self._jobs[job_id]

    # what people, machines and the operator do

    def mark(self, name: str, *, state: str | None = None, flags: frozenset[str] | None = None) -> None:
        """Give a node another base state or other flags, as slurmctld or a person would."""
        node = self._nodes[name]
        self._nodes[name] = replace(
            node, state=node.state if state is None else state, flags=node.flags if flags is None else flags
        )

    def add_reservation(self, reservation: Reservation) -> None:
        """A person's reservation, such as one with the flag MAINT."""
        self._reservations[reservation.name] = reservation

    def stop_worker(self, name: str) -> None:
        """The worker's pod ends: its preStop sets the node DOWN, with the operator's reason."""
        self._take_down(name, TERMINATING, "root")
        self._nodes[name] = replace(self._nodes[name], flags=self._nodes[name].flags | {"NOT_RESPONDING"})

    def register(self, name: str) -> None:
        """A slurmd of a name that is new to slurmctld registers: a dynamic node, IDLE at once."""
        self._nodes[name] = replace(_new_node(name, self.clock.now()), slurmd_start_time=self.clock.now())

    def start_worker(self, name: str) -> None:
        """The worker's pod runs again on the same Kubernetes node: a new slurmd, the node's state kept."""
        seen = self._nodes[name]
        flags = seen.flags - {"NOT_RESPONDING"}
        self._nodes[name] = replace(seen, flags=flags, slurmd_start_time=float(int(self.clock.now())))

    def undrain(self, name: str, reason: str = "") -> None:
        """The operator lifts a DRAIN under its own reason from a node that is not cordoned: DOWN stays."""
        seen = self._nodes[name]
        self._nodes[name] = replace(seen, flags=seen.flags - {"DRAIN"}, reason=reason, reason_at=None)

    def move_worker(self, name: str) -> None:
        """It runs on another Kubernetes node: 5 s later the operator sets IDLE, wiping DRAIN and reason."""
        self.start_worker(name)
        self._nodes[name] = replace(self._nodes[name], boot_time=self.clock.now() - 86_400)
        self._idle_at[name] = self.clock.now() + IDLE_LAG

    def kill_ctld(self, forget: int = 0, *, after_term: bool = False) -> None:
        """SIGKILL and restart of slurmctld: the last `forget` effective writes were never saved.

        `after_term`: TERM had left already, so a run whose requeue is forgotten saves and ends FAILED.
        """
        later = self._jobs
        for _ in range(forget):
            self._nodes, self._jobs, self._reservations = self._undo.pop()
        if after_term:
            for job_id, job in self._jobs.items():
                self._let_fail(job, later.get(job_id, job))
        self._started_at = max(self._started_at + 1, int(self.clock.now()))

    def _let_fail(self, job: Job, later: Job) -> None:
        if job.seen.state == "RUNNING" and later.seen.restart_count > job.seen.restart_count:
            job.fails_at = later.gone_at if later.restart_at_end else self.clock.now()

    # what slurmctld does

    def settle(self) -> None:
        """Let everything happen that is due by now."""
        now = self.clock.now()
        self._end_reservations(now)
        self._set_moved_idle(now)
        for job in self._jobs.values():
            self._settle_job(job, now)
        for job in self._jobs.values():
            self._try_start(job, now)

    def _settle_job(self, job: Job, now: float) -> None:
        running = job.seen.state == "RUNNING"
        if running and job.fails_at <= now:
            self._exit(job, 1)
        elif running and job.ends_at <= now:
            self._exit(job, job.exit_code)
        if job.restart_at_end and job.gone_at <= now:
            job.saved = job.save <= self.kill_wait + 1.0 and not job.frozen
            self._queue_again(job)

    def _end_reservations(self, now: float) -> None:
        over = [r for r in self._reservations.values() if r.end is not None and r.end <= now]
        for reservation in over:
            del self._reservations[reservation.name]
            for job in self._in_reservation(reservation.name):
                self._lose_place(job, reservation)

    def _lose_place(self, job: Job, reservation: Reservation) -> None:
        """A waiting job is held unless told not to; a running one runs on under FLEX, is killed otherwise."""
        job.seen = replace(job.seen, reservation="")
        if job.seen.state == "PENDING":
            if "NO_HOLD_JOBS_AFTER_END" in reservation.flags:
                return
            flags = job.seen.flags | {"RESV_DEL_HOLD"}
            job.seen = replace(job.seen, flags=flags, held=True, state_reason="ReservationDeleted")
        elif "FLEX" not in reservation.flags:
            self._end(job, "TIMEOUT")

    def _set_moved_idle(self, now: float) -> None:
        for name in [name for name, at in self._idle_at.items() if at <= now]:
            del self._idle_at[name]
            seen = self._nodes[name]
            self._nodes[name] = replace(
                seen, state="IDLE", flags=seen.flags - {"DRAIN"}, reason="", reason_user="", reason_at=None
            )

    def _begin_requeue(self, job: Job, *, held: bool = False) -> None:
        now = self.clock.now()
        running = job.seen.state in {"RUNNING", "SUSPENDED"}
        save = min(job.save, self.kill_wait + 1.0) if not job.frozen else FROZEN_END
        gone_at = min(now + save, job.fails_at) if running else now
        if held:
            job.seen = replace(job.seen, held=True, state_reason=HELD_BY_REQUEUE)
        self._restart_at(job, gone_at, saving=running)

    def _restart_at(self, job: Job, gone_at: float, *, saving: bool) -> None:
        job.seen = replace(
            job.seen,
            state="PENDING",
            flags=job.seen.flags | {"COMPLETING"} if saving else job.seen.flags,
            restart_count=job.seen.restart_count + 1,
        )
        job.ends_at = job.fails_at = inf
        job.restart_at_end = True
        job.gone_at = gone_at

    def _take_down(self, name: str, reason: str, user: str) -> None:
        now = float(int(self.clock.now()))
        self._nodes[name] = replace(
            self._nodes[name], state="DOWN", reason=reason, reason_user=user, reason_at=now
        )
        for job in self._jobs_on(name):
            self._lose_node(job, name)

    def _lose_node(self, job: Job, name: str) -> None:
        """The run leaves the node unasked; on its other nodes it gets TERM and KillWait."""
        if job.no_kill and not job.restart_at_end and len(job.seen.nodes) > 1:
            self.shrink(job.seen.job_id, name)
            return
        if not job.restart_at_end and not (job.seen.batch and job.seen.requeue):
            self._end(job, "NODE_FAIL")
            return
        if not job.restart_at_end:
            self._begin_requeue(job)
        job.seen = replace(job.seen, nodes=tuple(other for other in job.seen.nodes if other != name))
        if not job.seen.nodes:
            job.gone_at = self.clock.now()
            self._queue_again(job)

    def _exit(self, job: Job, code: int) -> None:
        self._end(job, "FAILED" if code else "COMPLETED")
        reason, info = (
            ("NonZeroExitCode", ExitInfo("ERROR", code)) if code else ("None", ExitInfo("SUCCESS", 0))
        )
        job.seen = replace(job.seen, state_reason=reason, exit=info)

    def _end(self, job: Job, state: str) -> None:
        flags = job.seen.flags - {"COMPLETING"}
        job.seen = replace(job.seen, state=state, flags=flags, end_time=self.clock.now())
        job.restart_at_end = False
        job.gone_at = job.ends_at = job.fails_at = inf

    def _queue_again(self, job: Job) -> None:
        job.seen = replace(
            job.seen,
            flags=job.seen.flags - {"COMPLETING"},
            nodes=(),
            submit_time=int(job.gone_at),
            start_time=None,
            end_time=None,
            begin_time=job.gone_at + (0.0 if "EXPEDITED_REQUEUE" in job.seen.traits else REQUEUE_DELAY),
            state_reason=_why_waiting(job.seen),
        )
        job.frozen = False
        job.restart_at_end = False
        job.gone_at = inf

    def _try_start(self, job: Job, now: float) -> None:
        seen = job.seen
        ready = seen.state == "PENDING" and not seen.is_completing and not seen.held
        if not ready or (seen.begin_time or 0) + START_LAG > now or not self._released(seen.dependency):
            return
        free = self._usable(seen, now)
        if len(free) < job.width or not set(seen.required_nodes) <= set(free):
            return
        chosen = tuple(sorted(free, key=lambda name: name not in seen.required_nodes)[: job.width])
        job.seen = replace(seen, state="RUNNING", nodes=chosen, start_time=now, state_reason="None")
        job.ends_at = now + job.seconds

    def _usable(self, job: SlurmJob, now: float) -> list[str]:
        """Free nodes this job may take: those of its reservation first, none of another one."""
        own = self._reservations.get(job.reservation)
        if job.reservation and own is None:
            return []
        free = [name for name in self._nodes if self._is_free(name)]
        kept = [name for name in free if own is not None and own.covers(name, now)]
        if own is not None and "FLEX" not in own.flags:
            return kept
        return kept + [name for name in free if not self._holders(name, now)]

    def _holders(self, name: str, now: float) -> list[Reservation]:
        return [r for r in self._reservations.values() if r.covers(name, now)]

    def _is_free(self, name: str) -> bool:
        node = self._show(self._nodes[name])
        return node.state == "IDLE" and not (node.is_drain or node.is_silent or self._jobs_on(name))

    def _jobs_on(self, name: str) -> list[Job]:
        return [job for job in self._jobs.values() if job.seen.holds_nodes and name in job.seen.nodes]

    def _in_reservation(self, name: str) -> list[Job]:
        return [job for job in self._jobs.values() if job.seen.reservation == name and not job.seen.is_over]

    def _released(self, dependency: str) -> bool:
        """`afterany:1` and the like: the parent must be over (and well or ill, as asked)."""
        kind, _, parent = dependency.partition(":")
        if not parent or int(parent.split("(")[0]) not in self._jobs:
            return True
        state = self._jobs[int(parent.split("(")[0])].seen.state
        wanted = {"afterok": state == "COMPLETED", "afternotok": state != "COMPLETED"}
        return state not in JOB_ALIVE and wanted.get(kind, True)

    def _show(self, node: SlurmNode) -> SlurmNode:
        here, now = self._jobs_on(node.name), self.clock.now()
        running = any(not j.seen.is_completing for j in here)
        shown = {
            "COMPLETING": any(j.seen.is_completing for j in here),
            "NOT_RESPONDING": self._silent_until.get(node.name, 0.0) > now,
            "RESERVED": any(not r.is_maintenance for r in self._holders(node.name, now)),
            "MAINTENANCE": any(r.is_maintenance for r in self._holders(node.name, now)),
        }
        state = "ALLOCATED" if running and node.state == "IDLE" else node.state
        return replace(node, state=state, flags=node.flags | {flag for flag, on in shown.items() if on})

    def _remember(self) -> None:
        """Keep the state before a write, for `kill_ctld`."""
        self._undo.append((dict(self._nodes), copy.deepcopy(self._jobs), dict(self._reservations)))

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def _why_waiting(requeued: SlurmJob) -> str:
    if requeued.held:
        return HELD_BY_REQUEUE if requeued.state_reason == HELD_BY_REQUEUE else "JobHeldAdmin"
    return "BeginTime"


def _new_node(name: str, now: float) -> SlurmNode:
    return SlurmNode(
        name=name,
        state="IDLE",
        flags=frozenset({"DYNAMIC_NORM"}),
        boot_time=now - 3600,
        slurmd_start_time=now - 60,
        gres="gpu:8",
        address="127.0.0.1",
    )
