"""SlurmPort over libslurm. What pyslurm 25.11 has no way to do raises Cannot, never a guess: see CANNOT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from remediator.errors import BadInput, Retry
from slurm_bridge import names
from slurm_bridge.errnos import ESLURM_JOB_NOT_PENDING, ESLURM_JOB_PENDING, ESLURM_RESERVATION_INVALID
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.port import Cannot
from slurm_bridge.pyslurm import decode
from slurm_bridge.pyslurm.channel import Channel

T = TypeVar("T")

CANNOT = {
    "requeue an array task": "it knows numbers only, and the number of an array requeues every task",
    "reserve": "it ends its process once the reservation is made",
    "take a job out of its reservation": "it sends no empty name",
    "set a node DOWN under enable_expedited_requeue": "it hides expedited jobs, which start at once",
    "read a job with a state flag": "it shows the flag, such as COMPLETING, in place of the base state",
}


class PyslurmSlurm:
    """The pyslurm backend on the worker behind `channel`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def close(self) -> None:
        """End the worker."""
        self._channel.close()

    def about(self, *, deadline: float) -> str:
        """What the worker runs on, for people; it loads libslurm, and asks slurmctld nothing."""
        doing = "ask the pyslurm worker"
        found = self._read("about", doing, deadline)
        return f"pyslurm {found['pyslurm']} on Python {found['python']}"

    # reads

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """See SlurmPort."""
        raw = self._read("node", f"read node {name}", deadline, name=names.node_name(name))
        return next(iter(_decoded(raw, decode.node, f"read node {name}")), None)

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        doing = "list nodes"
        found = _decoded(self._read("nodes", doing, deadline), decode.node, doing)
        if not found:
            raise Retry(f"{doing}: the answer is empty")
        return found

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort; Cannot while it completes."""
        doing = f"read job {job_id}"
        names.job_address(str(job_id))
        return next(
            iter(_decoded(self._read("job", doing, deadline, job_id=job_id), decode.job, doing)), None
        )

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort; Cannot while any job completes."""
        return _decoded(self._read("jobs", "list jobs", deadline), decode.job, "list jobs")

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """See SlurmPort; it costs as much as `jobs`, and Cannot while any job completes."""
        doing = "list the states of jobs"
        return _decoded(
            self._read("jobs", doing, deadline), lambda raw: (int(raw["id"]), decode.job_base(raw)), doing
        )

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """See SlurmPort."""
        doing = "list reservations"
        return _decoded(self._read("reservations", doing, deadline), decode.reservation, doing)

    def reservation(self, name: str, *, deadline: float) -> Reservation | None:
        """See SlurmPort."""
        names.reservation_name(name)
        return next((found for found in self.reservations(deadline=deadline) if found.name == name), None)

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort."""
        doing = "read slurm.conf"
        return _decoded([self._read("config", doing, deadline)], decode.config, doing)[0]

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._read("ping", "ping slurmctld", deadline)

    # writes to nodes

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"name": names.node_name(node), "state": "DRAIN", "reason": names.reason(reason)}
        self._write("update_node", change, f"drain {node}", deadline)

    def resume(self, node: str, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"name": names.node_name(node), "state": "RESUME"}
        self._write("update_node", change, f"resume {node}", deadline)

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort; Cannot where Slurm expedites requeues."""
        change = {"name": names.node_name(node), "reason": names.reason(reason)}
        if self._write("set_down", change, f"set {node} down", deadline) is False:
            _cannot(f"set {node} down", "set a node DOWN under enable_expedited_requeue")

    # writes to jobs

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort; Cannot for a task of an array."""
        address = names.job_address(job.address)
        if job.array_job_id:
            _cannot(f"requeue {address}", "requeue an array task")
        run = {"job_id": job.job_id, "held": held}
        self._write("requeue", run, f"requeue {address}", deadline, ESLURM_JOB_PENDING)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"job_id": int(names.job_address(str(job_id))), "begin_time": 1}
        self._write("update_job", change, f"start job {job_id}", deadline, ESLURM_JOB_NOT_PENDING)

    def hold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"job_id": int(names.job_address(str(job_id)))}
        self._write("hold", change, f"hold job {job_id}", deadline)

    def unhold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"job_id": int(names.job_address(str(job_id)))}
        self._write("release", change, f"release the hold of job {job_id}", deadline)

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """See SlurmPort; Cannot for `""`."""
        doing = f"set the reservation of job {names.job_address(str(job_id))}"
        if not name:
            _cannot(doing, "take a job out of its reservation")
        change = {"job_id": job_id, "reservations": [names.reservation_name(name)]}
        self._write("update_job", change, doing, deadline)

    # writes to reservations

    def reserve(
        self,
        name: str,
        nodes: Sequence[str],
        users: Sequence[str],
        minutes: int,  # noqa: ARG002  (the port's)
        *,
        deadline: float,  # noqa: ARG002  (the port's)
    ) -> None:
        """BadInput for names that are not literal, else Cannot."""
        names.node_list(nodes)
        names.user_list(users)
        _cannot(f"reserve {names.reservation_name(name)}", "reserve")

    def resize_reservation(self, name: str, nodes: Sequence[str], *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"name": names.reservation_name(name), "nodes": names.node_list(nodes)}
        self._write("resize_reservation", change, f"resize reservation {name}", deadline)

    def delete_reservation(self, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"name": names.reservation_name(name)}
        doing = f"delete reservation {name}"
        self._write("delete_reservation", change, doing, deadline, ESLURM_RESERVATION_INVALID)

    # shared

    def _read(self, operation: str, doing: str, deadline: float, **arguments: Any) -> Any:
        return self._channel.call(operation, arguments, doing, deadline=deadline, write=False)

    def _write(
        self,
        operation: str,
        arguments: dict[str, Any],
        doing: str,
        deadline: float,
        harmless: int | None = None,
    ) -> Any:
        return self._channel.call(
            operation, arguments, doing, deadline=deadline, write=True, harmless=harmless
        )


def _decoded(raw: Any, one: Callable[[dict[str, Any]], T], doing: str) -> tuple[T, ...]:
    """All records; Retry when one of them cannot be read."""
    try:
        return tuple(one(record) for record in raw)
    except (BadInput, KeyError, TypeError, AttributeError) as error:
        raise Retry(f"{doing}: cannot read the answer: {error}") from error


def _cannot(doing: str, what: str) -> NoReturn:
    raise Cannot(f"pyslurm: {doing}: {CANNOT[what]}")
