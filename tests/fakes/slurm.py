"""A Slurm in memory and virtual time, behind the same port and the same contract suite as the real one.

Every call first lets everything due happen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from remediator.clock import Clock
from remediator.errors import BadInput, Blocked, RemediatorError, Retry
from slurm_bridge import names
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from tests.fakes.slurm_ctld import RESUME_LAG, Ctld, Job

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


class FakeSlurm(Ctld):
    """slurmctld's view of nodes and jobs, as SlurmPort.

    `before(op, target)` and `after(op, target)` run around every call and may raise: before = nothing
    happened; after = it happened and the answer is lost.
    """

    def __init__(
        self, clock: Clock, nodes: Sequence[str] = ("gpu-0", "gpu-1", "gpu-2"), kill_wait: int = 6
    ) -> None:
        super().__init__(clock, nodes, kill_wait)
        self.is_up = True
        self.min_job_age = 300
        self.before: Hook = _no_hook
        self.after: Hook = _no_hook
        self.writes: list[Write] = []

    def count(self, op: str, target: str) -> int:
        """How many writes of this kind had an effect."""
        return sum(1 for w in self.writes if (w.op, w.target, w.effect) == (op, target, True))

    # reads

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

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """See SlurmPort."""
        self._enter("job_states", "")
        found = tuple((job.seen.job_id, job.seen.state) for job in self._jobs.values())
        self.after("job_states", "")
        return found

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """See SlurmPort."""
        self._enter("reservations", "")
        found = tuple(self._reservations.values())
        self.after("reservations", "")
        return found

    def reservation(self, name: str, *, deadline: float) -> Reservation | None:
        """See SlurmPort."""
        names.reservation_name(name)
        self._enter("reservation", name)
        found = self._reservations.get(name)
        self.after("reservation", name)
        return found

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort."""
        self._enter("config", "")
        self.after("config", "")
        clock = int(self.clock.now())
        age = self.min_job_age
        return SlurmConfig("26.05.5", self.kill_wait, age, 30, True, self._started_at, clock)

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._enter("ping", "")
        self.after("ping", "")

    # writes to nodes

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
        refused = f"resume {node}: the node is not in a state that allows this change"
        self._demand("resume", node, "", None if seen.is_drain or seen.is_down else Blocked(refused))
        state = "IDLE" if seen.is_down else seen.state
        self._nodes[node] = replace(
            seen, state=state, flags=seen.flags - {"DRAIN"}, reason="", reason_user="", reason_at=None
        )
        self._silent_until[node] = self.clock.now() + RESUME_LAG
        self.after("resume", node)

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        names.reason(reason)
        seen = self._writable_node("set_down", node)
        changed = not seen.is_down or seen.reason != reason
        self._record("set_down", node, reason, changed)
        if changed:
            self._take_down(node, reason, "slurm")
        self.after("set_down", node)

    # writes to jobs

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort."""
        address = names.job_address(job.address)
        self._enter("requeue", address)
        found = self._addressed(address)
        self._check_requeue(found)
        pending = found.seen.state == "PENDING"
        self._record("requeue", address, "held" if held else "", not pending)
        if not pending:
            for member in [found, *(self._jobs[m] for m in found.members)]:
                self._begin_requeue(member, held=held)
        self.after("requeue", address)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        found = self._writable_job("start_now", job_id)
        if "CRON_JOB" in found.seen.traits:
            raise Blocked(f"start job {job_id}: only scrontab itself may change a scrontab job")
        pending = found.seen.state == "PENDING"
        self._record("start_now", str(job_id), "", pending)
        if pending:
            found.seen = replace(found.seen, begin_time=self.clock.now())
        self.after("start_now", str(job_id))

    def hold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._set_hold("hold_job", job_id, held=True)

    def unhold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._set_hold("unhold_job", job_id, held=False)

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        if name:
            names.reservation_name(name)
        found = self._writable_job("set_job_reservation", job_id)
        if name:
            self._demand("set_job_reservation", str(job_id), name, self._refuses(found.seen, name))
        else:
            self._record("set_job_reservation", str(job_id), "", found.seen.reservation != "")
        found.seen = replace(found.seen, reservation=name)
        self.after("set_job_reservation", str(job_id))

    # writes to reservations

    def reserve(
        self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int, *, deadline: float
    ) -> None:
        """See SlurmPort."""
        names.reservation_name(name)
        wanted, allowed = tuple(names.node_list(nodes)), tuple(names.user_list(users))
        self._enter("reserve", name)
        refusal = self._overlap(name, wanted)
        if name in self._reservations:
            refusal = Blocked(f"reserve {name}: a reservation of this name has begun already")
        elif not set(wanted) <= set(self._nodes):
            refusal = BadInput("node", f"reserve {name}: slurmctld knows no such node")
        self._demand("reserve", name, ",".join(wanted), refusal)
        now = float(int(self.clock.now()))
        flags = frozenset({"FLEX", "IGNORE_JOBS", "SPEC_NODES", "NO_HOLD_JOBS_AFTER_END"})
        self._reservations[name] = Reservation(name, wanted, allowed, flags, now - 60, now + 60 * minutes)
        self.after("reserve", name)

    def resize_reservation(self, name: str, nodes: Sequence[str], *, deadline: float) -> None:
        """See SlurmPort."""
        names.reservation_name(name)
        wanted = tuple(node for node in names.node_list(nodes) if node in self._nodes)
        self._enter("resize_reservation", name)
        refusal = self._overlap(name, wanted)
        if name not in self._reservations or not wanted:
            refusal = _no_reservation(f"resize reservation {name}")
        self._demand("resize_reservation", name, ",".join(wanted), refusal)
        self._reservations[name] = replace(self._reservations[name], nodes=wanted)
        self.after("resize_reservation", name)

    def delete_reservation(self, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        names.reservation_name(name)
        self._enter("delete_reservation", name)
        if name not in self._reservations:
            self._record("delete_reservation", name, "", effect=False)
        else:
            used = Blocked(f"delete reservation {name}: a job is still in the reservation")
            self._demand("delete_reservation", name, "", used if self._in_reservation(name) else None)
            del self._reservations[name]
        self.after("delete_reservation", name)

    # shared

    def _set_hold(self, op: str, job_id: int, *, held: bool) -> None:
        found = self._writable_job(op, job_id)
        refusal = Blocked(f"{op} {job_id}: the job is already over") if found.seen.is_over else None
        changed = found.seen.held != held
        if refusal or changed:
            self._demand(op, str(job_id), "", refusal)
        else:
            self._record(op, str(job_id), "", effect=False)
        reason = "JobHeldAdmin" if held else "None"
        if changed:
            found.seen = replace(found.seen, held=held, state_reason=reason)
        self.after(op, str(job_id))

    def _enter(self, op: str, target: str) -> None:
        if not self.is_up:
            raise Retry("slurmrestd does not accept connections")
        self.before(op, target)
        self.settle()

    def _writable_node(self, op: str, name: str) -> SlurmNode:
        names.node_name(name)
        self._enter(op, name)
        if name not in self._nodes:
            raise BadInput("node", f"{op} {name}: slurmctld knows no such node")
        return self._nodes[name]

    def _writable_job(self, op: str, job_id: int) -> Job:
        names.job_address(str(job_id))
        self._enter(op, str(job_id))
        return self._addressed(str(job_id))

    def _record(self, op: str, target: str, detail: str, effect: bool) -> None:
        self.writes.append(Write(self.clock.now(), op, target, detail, effect))
        if effect:
            self._remember()

    def _demand(self, op: str, target: str, detail: str, refusal: RemediatorError | None) -> None:
        self._record(op, target, detail, effect=refusal is None)
        if refusal is not None:
            raise refusal

    def _addressed(self, address: str) -> Job:
        for job in self._jobs.values():
            if address in (job.seen.address, str(job.seen.job_id)):
                return job
        raise BadInput("job", f"{address}: slurmctld knows no such job (any more)")

    def _check_requeue(self, job: Job) -> None:
        if not job.seen.batch:
            raise Blocked("the job has no batch script (salloc or srun)")
        if not job.seen.requeue:
            raise Blocked("the job may not be requeued (Requeue=0), or its partition is gone")
        if job.seen.het_job_id not in (None, job.seen.job_id):
            raise BadInput("job", "not the leader of its heterogeneous job: name the leader")

    def _refuses(self, job: SlurmJob, name: str) -> RemediatorError | None:
        doing = f"set the reservation of job {job.job_id}"
        if job.is_over:
            return Blocked(f"{doing}: the job is already over")
        if name not in self._reservations:
            return _no_reservation(doing)
        if job.user not in self._reservations[name].users:
            return Blocked(f"{doing}: the job's owner may not use the reservation")
        return None

    def _overlap(self, name: str, nodes: tuple[str, ...]) -> RemediatorError | None:
        others = [r for r in self._reservations.values() if r.name != name]
        if any(not set(nodes).isdisjoint(r.nodes) for r in others):
            return Blocked(f"{name}: another reservation holds one of the nodes")
        return None


def _no_reservation(doing: str) -> RemediatorError:
    return BadInput("reservation", f"{doing}: slurmctld knows no such reservation, or none of its nodes")
