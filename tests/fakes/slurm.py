"""A Slurm in memory and virtual time, behind the same port and the same contract suite as the real one.

Jobs take whole nodes. Time moves with the clock; every call first lets everything due happen.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from remediator.clock import Clock
from remediator.errors import BadInput, Blocked, Retry
from slurm_bridge import names
from slurm_bridge.model import SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.states import JOB_ALIVE

REQUEUE_DELAY = 121.0
START_LAG = 1.0  # the scheduler looks once a second
Hook = Callable[[str, str], None]


def _no_hook(op: str, target: str) -> None:
    """Nothing goes wrong."""


@dataclass(frozen=True)
class Write:
    """One write that reached slurmctld: `effect` is False when it changed nothing or was refused."""

    at: float
    op: str
    target: str
    detail: str
    effect: bool


@dataclass
class _Job:
    """A job's record (in `seen`) and what its processes do."""

    seen: SlurmJob
    width: int = 1
    save: float = 1.0
    seconds: float = inf
    ends_at: float = inf
    gone_at: float = inf
    restart_at_end: bool = False
    members: list[int] = field(default_factory=list)

    @property
    def occupies(self) -> bool:
        return self.seen.holds_nodes


class FakeSlurm:
    """slurmctld's view of nodes and jobs, as SlurmPort.

    `before(op, target)` and `after(op, target)` run around every call and may raise: before = nothing
    happened; after = it happened and the answer is lost.
    """

    def __init__(
        self, clock: Clock, nodes: Sequence[str] = ("gpu-0", "gpu-1", "gpu-2"), kill_wait: int = 6
    ) -> None:
        self.clock = clock
        self.kill_wait = kill_wait
        self.is_up = True
        self.before: Hook = _no_hook
        self.after: Hook = _no_hook
        self.writes: list[Write] = []
        self._started_at = int(clock.now())
        self._nodes = {
            name: SlurmNode(
                name=name,
                state="IDLE",
                flags=frozenset({"DYNAMIC_NORM"}),
                boot_time=clock.now() - 3600,
                slurmd_start_time=clock.now() - 60,
                gres="gpu:8",
                address="127.0.0.1",
            )
            for name in nodes
        }
        self._jobs: dict[int, _Job] = {}
        self._next_id = 1
        self._undo: deque[tuple[dict[str, SlurmNode], dict[int, _Job]]] = deque(maxlen=8)

    # the cluster's side: what tests do to it

    def submit(self, seen: SlurmJob, *, width: int = 1, save: float = 1.0, seconds: float = inf) -> int:
        """Queue a job like `seen`: `width` nodes, `save` seconds from TERM to exit, `seconds` of work."""
        now = self.clock.now()
        job_id = self._take_id()
        seen = replace(seen, job_id=job_id, state="PENDING", submit_time=int(now), begin_time=now)
        self._jobs[job_id] = _Job(seen=seen, width=width, save=save, seconds=seconds)
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

    def cancel(self, job_id: int) -> None:
        """End a job at once."""
        self._end(self._jobs[job_id], "CANCELLED")

    def forget(self, job_id: int) -> None:
        """MinJobAge has passed: the record is gone."""
        del self._jobs[job_id]

    def mark(self, name: str, *, state: str | None = None, flags: frozenset[str] | None = None) -> None:
        """Give a node another base state or other flags, as slurmctld or a person would."""
        node = self._nodes[name]
        self._nodes[name] = replace(
            node, state=node.state if state is None else state, flags=node.flags if flags is None else flags
        )

    def kill_ctld(self, forget: int = 0) -> None:
        """SIGKILL and restart of slurmctld: the last `forget` effective writes were never saved."""
        for _ in range(forget):
            self._nodes, self._jobs = self._undo.pop()
        self._started_at = max(self._started_at + 1, int(self.clock.now()))

    def count(self, op: str, target: str) -> int:
        """How many writes of this kind had an effect."""
        return sum(1 for w in self.writes if (w.op, w.target, w.effect) == (op, target, True))

    # SlurmPort

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """See SlurmPort."""
        names.node_name(name)
        self._enter("node", name)
        found = self._show(self._nodes[name]) if name in self._nodes else None
        self.after("node", name)
        return found

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        self._enter("nodes", "")
        found = tuple(self._show(node) for node in self._nodes.values())
        self.after("nodes", "")
        return found

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort."""
        names.job_address(str(job_id))
        self._enter("job", str(job_id))
        found = self._jobs[job_id].seen if job_id in self._jobs else None
        self.after("job", str(job_id))
        return found

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort."""
        self._enter("jobs", "")
        found = tuple(job.seen for job in self._jobs.values())
        self.after("jobs", "")
        return found

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort."""
        self._enter("config", "")
        self.after("config", "")
        return SlurmConfig("26.05.5", self.kill_wait, 300, 30, True, self._started_at)

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._enter("ping", "")
        self.after("ping", "")

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        names.reason(reason)
        seen = self._writable_node("drain", node)
        changed = not seen.is_drain or seen.reason != reason
        self._record("drain", node, reason, changed)
        if changed:
            flags = seen.flags | {"DRAIN"}
            now = float(int(self.clock.now()))
            self._nodes[node] = replace(seen, flags=flags, reason=reason, reason_user="slurm", reason_at=now)
        self.after("drain", node)

    def resume(self, node: str, *, deadline: float) -> None:
        """See SlurmPort."""
        seen = self._writable_node("resume", node)
        allowed = seen.is_drain or seen.is_down
        self._record("resume", node, "", allowed)
        if not allowed:
            raise Blocked(f"resume {node}: the node is not in a state that allows this change")
        state = "IDLE" if seen.is_down else seen.state
        self._nodes[node] = replace(
            seen, state=state, flags=seen.flags - {"DRAIN"}, reason="", reason_user="", reason_at=None
        )
        self.after("resume", node)

    def requeue(self, job: SlurmJob, *, deadline: float) -> None:
        """See SlurmPort."""
        address = names.job_address(job.address)
        self._enter("requeue", address)
        found = self._addressed(address)
        self._check_requeue(found)
        pending = found.seen.state == "PENDING"
        self._record("requeue", address, "", not pending)
        if not pending:
            for member in [found, *(self._jobs[m] for m in found.members)]:
                self._begin_requeue(member)
        self.after("requeue", address)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        names.job_address(str(job_id))
        self._enter("start_now", str(job_id))
        found = self._addressed(str(job_id))
        pending = found.seen.state == "PENDING"
        self._record("start_now", str(job_id), "", pending)
        if pending:
            found.seen = replace(found.seen, begin_time=self.clock.now())
        self.after("start_now", str(job_id))

    # how Slurm behaves

    def _enter(self, op: str, target: str) -> None:
        if not self.is_up:
            raise Retry("slurmrestd does not accept connections")
        self.before(op, target)
        self._settle()

    def _writable_node(self, op: str, name: str) -> SlurmNode:
        names.node_name(name)
        self._enter(op, name)
        if name not in self._nodes:
            raise BadInput("node", f"{op} {name}: slurmctld knows no such node")
        return self._nodes[name]

    def _record(self, op: str, target: str, detail: str, effect: bool) -> None:
        self.writes.append(Write(self.clock.now(), op, target, detail, effect))
        if effect:
            self._undo.append((dict(self._nodes), copy.deepcopy(self._jobs)))

    def _addressed(self, address: str) -> _Job:
        for job in self._jobs.values():
            if address in (job.seen.address, str(job.seen.job_id)):
                return job
        raise BadInput("job", f"{address}: slurmctld knows no such job (any more)")

    def _check_requeue(self, job: _Job) -> None:
        if not job.seen.batch:
            raise Blocked("the job has no batch script (salloc or srun)")
        if not job.seen.requeue:
            raise Blocked("the job may not be requeued (Requeue=0), or its partition is gone")
        if job.seen.het_job_id not in (None, job.seen.job_id):
            raise BadInput("job", "not the leader of its heterogeneous job: name the leader")

    def _begin_requeue(self, job: _Job) -> None:
        now = self.clock.now()
        running = job.seen.state in {"RUNNING", "SUSPENDED"}
        job.seen = replace(
            job.seen,
            state="PENDING",
            flags=job.seen.flags | {"COMPLETING"} if running else job.seen.flags,
            restart_count=job.seen.restart_count + 1,
        )
        job.ends_at = inf
        job.restart_at_end = True
        job.gone_at = now + min(job.save, self.kill_wait + 1.0) if running else now

    def _settle(self) -> None:
        """Let everything happen that is due by now."""
        now = self.clock.now()
        for job in self._jobs.values():
            if job.seen.state == "RUNNING" and job.ends_at <= now:
                self._end(job, "COMPLETED")
            if job.restart_at_end and job.gone_at <= now:
                self._queue_again(job)
        for job in self._jobs.values():
            self._try_start(job, now)

    def _end(self, job: _Job, state: str) -> None:
        job.seen = replace(job.seen, state=state, flags=job.seen.flags - {"COMPLETING"})
        job.restart_at_end = False
        job.gone_at = job.ends_at = inf

    def _queue_again(self, job: _Job) -> None:
        job.seen = replace(
            job.seen,
            flags=job.seen.flags - {"COMPLETING"},
            nodes=(),
            submit_time=int(job.gone_at),
            start_time=None,
            begin_time=job.gone_at + REQUEUE_DELAY,
            state_reason="BeginTime",
        )
        job.restart_at_end = False
        job.gone_at = inf

    def _try_start(self, job: _Job, now: float) -> None:
        seen = job.seen
        ready = seen.state == "PENDING" and not seen.is_completing and not seen.held
        if not ready or (seen.begin_time or 0) + START_LAG > now or not self._released(seen.dependency):
            return
        free = [n for n in self._nodes.values() if self._is_free(n)]
        if len(free) < job.width or not set(seen.required_nodes) <= {n.name for n in free}:
            return
        free.sort(key=lambda n: n.name not in seen.required_nodes)
        chosen = tuple(n.name for n in free[: job.width])
        job.seen = replace(seen, state="RUNNING", nodes=chosen, start_time=now, state_reason="None")
        job.ends_at = now + job.seconds

    def _is_free(self, node: SlurmNode) -> bool:
        return node.state == "IDLE" and not node.is_drain and not self._jobs_on(node.name)

    def _jobs_on(self, name: str) -> list[_Job]:
        return [job for job in self._jobs.values() if job.occupies and name in job.seen.nodes]

    def _released(self, dependency: str) -> bool:
        """`afterany:1` and the like: the parent must be over (and well or ill, as asked)."""
        kind, _, parent = dependency.partition(":")
        if not parent or int(parent.split("(")[0]) not in self._jobs:
            return True
        state = self._jobs[int(parent.split("(")[0])].seen.state
        wanted = {"afterok": state == "COMPLETED", "afternotok": state != "COMPLETED"}
        return state not in JOB_ALIVE and wanted.get(kind, True)

    def _show(self, node: SlurmNode) -> SlurmNode:
        here = self._jobs_on(node.name)
        flags = node.flags | ({"COMPLETING"} if any(j.seen.is_completing for j in here) else set())
        running = any(not j.seen.is_completing for j in here)
        return replace(
            node, state="ALLOCATED" if running and node.state == "IDLE" else node.state, flags=flags
        )

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
