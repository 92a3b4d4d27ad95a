"""SlurmPort over slurmrestd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remediator.clock import Clock
from remediator.errors import BadInput, Retry
from slurm_bridge import names
from slurm_bridge.errnos import (
    ESLURM_INVALID_JOB_ID,
    ESLURM_INVALID_NODE_NAME,
    ESLURM_JOB_FINISHED,
    ESLURM_JOB_NOT_PENDING,
    ESLURM_JOB_PENDING,
    ESLURM_RESERVATION_INVALID,
)
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.port import Cannot
from slurm_bridge.rest import decode
from slurm_bridge.rest.refusals import error_numbers, is_success, refusal
from slurm_bridge.rest.session import Session, decoded, from_ctld, whole
from slurm_bridge.rest.token import TokenSource
from slurm_bridge.rest.transport import Answer

# Begun a minute ago, so that a slurmctld whose clock is behind ours keeps the nodes at once.
_CLOCK_SKEW_MIN = 1
# Without the last one Slurm holds a job that still waits in the reservation when it ends.
_PLACE_FLAGS = ("FLEX", "IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END")


class RestSlurm:
    """The REST backend; `user` must be the name inside the token."""

    def __init__(self, url: str, user: str, token: TokenSource, clock: Clock) -> None:
        self._rest = Session(url, user, token, clock)
        self._clock = clock

    # reads

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """See SlurmPort. Without flags the answer about one node is MIXED by how many cores were in use when
        somebody last listed all nodes, hours after its jobs have ended or it was set DOWN.
        """
        self._rest.start(deadline)
        answer = self._rest.get(f"node/{names.node_name(name)}?flags=DETAIL")
        doing = f"read node {name}"
        if ESLURM_INVALID_NODE_NAME in error_numbers(answer):
            return None
        if _says_nothing(answer):
            # 26.05 answers an unknown node with HTTP 200 and error number 0: ask for all of them.
            return next((node for node in self._all_nodes() if node.name == name), None)
        found = decoded(whole(answer, doing), "nodes", decode.node, doing)
        if [node.name for node in found] != [name]:
            raise Retry(f"{doing}: slurmrestd answered with something else")
        return found[0]

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        self._rest.start(deadline)
        return self._all_nodes()

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort."""
        self._rest.start(deadline)
        doing = f"read job {job_id}"
        answer = self._rest.get(f"job/{names.job_address(str(job_id))}")
        if answer.status == 404 and error_numbers(answer) == [ESLURM_INVALID_JOB_ID]:
            return None
        # The id of an array brings all its tasks; one of them carries the id itself.
        for found in decoded(whole(answer, doing), "jobs", decode.job, doing):
            if found.job_id == job_id:
                return found
        raise Retry(f"{doing}: slurmrestd answered with something else")

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort."""
        self._rest.start(deadline)
        return decoded(from_ctld(self._rest.get("jobs/"), "list jobs"), "jobs", decode.job, "list jobs")

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """See SlurmPort."""
        self._rest.start(deadline)
        doing = "list the states of jobs"
        return decoded(whole(self._rest.get("jobs/state"), doing), "jobs", decode.job_in_brief, doing)

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """See SlurmPort."""
        self._rest.start(deadline)
        doing = "list reservations"
        body = from_ctld(self._rest.get("reservations/"), doing)
        return decoded(body, "reservations", decode.reservation, doing)

    def reservation(self, name: str, *, deadline: float) -> Reservation | None:
        """See SlurmPort. Asked by name, slurmrestd answers an unknown one and a failure alike."""
        names.reservation_name(name)
        return next((found for found in self.reservations(deadline=deadline) if found.name == name), None)

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort. Before v0.0.45 only the version can be seen."""
        self._rest.start(deadline)
        doing = "read slurm.conf"
        if not self._rest.is_newest():
            return SlurmConfig(version=decode.version(whole(self._rest.get("ping/"), doing)))
        try:
            return decode.config(whole(self._rest.get("conf"), doing))
        except BadInput as error:
            raise Retry(f"{doing}: {error}") from error

    def data_parser(self, *, deadline: float) -> int:
        """The newest data_parser that slurmrestd and we speak: 45 is v0.0.45."""
        self._rest.start(deadline)
        return self._rest.newest()

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._rest.start(deadline)
        self._rest.ping()

    # writes to nodes

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"state": ["DRAIN"], "reason": names.reason(reason)}
        self._update(f"node/{names.node_name(node)}", change, f"drain {node}", deadline)

    def resume(self, node: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._update(f"node/{names.node_name(node)}", {"state": ["RESUME"]}, f"resume {node}", deadline)

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort; slurmctld must answer a ping right before."""
        change = {"state": ["DOWN"], "reason": names.reason(reason)}
        path = f"node/{names.node_name(node)}"
        self._rest.start(deadline)
        self._rest.ping()
        _demand(self._rest.post(path, change), f"set {node} down")

    # writes to jobs

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort. Blocked below v0.0.45; slurmctld must answer a ping right before."""
        address = names.job_address(job.address)
        self._rest.start(deadline)
        if not self._rest.is_newest():
            raise Cannot(f"requeue {address}: REST can requeue only from Slurm 26.05 (v0.0.45) on")
        self._rest.ping()
        flags = {"flags": ["Hold"]} if held else {}
        answer = self._rest.post("jobs/requeue", {"jobs": [address], **flags})
        _demand(answer, f"requeue {address}", or_only=ESLURM_JOB_PENDING)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"begin_time": _number(1)}
        self._update_job(job_id, change, "start", deadline, or_only=ESLURM_JOB_NOT_PENDING)

    def hold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._update_job(job_id, {"hold": True}, "hold", deadline, or_only=None)

    def unhold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._update_job(job_id, {"hold": False}, "release the hold of", deadline, or_only=None)

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        change = {"reservation": names.reservation_name(name) if name else ""}
        done = None if name else ESLURM_JOB_FINISHED
        self._update_job(job_id, change, "set the reservation of", deadline, or_only=done)

    # writes to reservations

    def reserve(
        self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int, *, deadline: float
    ) -> None:
        """See SlurmPort."""
        wanted = {
            "name": names.reservation_name(name),
            "node_list": names.node_list(nodes),
            "users": names.user_list(users),
            "flags": list(_PLACE_FLAGS),
            "start_time": _number(int(self._clock.now()) - 60 * _CLOCK_SKEW_MIN),
            "duration": _number(minutes + _CLOCK_SKEW_MIN),
        }
        self._update("reservation", wanted, f"reserve {name}", deadline)

    def resize_reservation(self, name: str, nodes: Sequence[str], *, deadline: float) -> None:
        """See SlurmPort."""
        # Without a start time it can only change a reservation, never make one.
        change = {"name": names.reservation_name(name), "node_list": names.node_list(nodes)}
        self._update("reservation", change, f"resize reservation {name}", deadline)

    def delete_reservation(self, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        path = f"reservation/{names.reservation_name(name)}"
        self._rest.start(deadline)
        answer = self._rest.delete(path)
        _demand(answer, f"delete reservation {name}", or_only=ESLURM_RESERVATION_INVALID)

    # shared

    def _update(self, path: str, change: dict[str, Any], doing: str, deadline: float) -> None:
        self._rest.start(deadline)
        _demand(self._rest.post(path, change), doing)

    def _update_job(
        self, job_id: int, change: dict[str, Any], verb: str, deadline: float, *, or_only: int | None
    ) -> None:
        address = names.job_address(str(job_id))
        self._rest.start(deadline)
        _demand(self._rest.post(f"job/{address}", change), f"{verb} job {address}", or_only=or_only)

    def _all_nodes(self) -> tuple[SlurmNode, ...]:
        doing = "list nodes"
        found = decoded(whole(self._rest.get("nodes/"), doing), "nodes", decode.node, doing)
        if not found:
            raise Retry(f"{doing}: the answer is empty")
        return found


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _demand(answer: Answer, doing: str, *, or_only: int | None = None) -> None:
    """Success of a write, or Slurm's only complaint is the harmless `or_only`; else raise."""
    if not is_success(answer) and set(error_numbers(answer)) != {or_only}:
        raise refusal(answer, doing, write=True)


def _says_nothing(answer: Answer) -> bool:
    return answer.status in {200, 404} and error_numbers(answer) == [0]
