"""The pyslurm worker, one file: the standard library and pyslurm only, for Slurm's own Python (3.9 or newer).

Reads one JSON request a line on stdin, `{"id", "op", "args", "token", "deadline"}`, and answers on stdout
with `{"id", "result"}` or `{"id", "error": {"errno", "text"}}`. It ends when stdin does. A call that takes
longer than its deadline ends the process from inside, also when whoever asked is gone.
"""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

PROTOCOL = 1
Operations = Mapping[str, Callable[..., Any]]


def main(operations: Operations) -> None:
    """Serve until stdin ends. What libslurm prints must not get between the answers: it goes to stderr."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        serve(operations, requests, answers)


def serve(operations: Operations, requests: BinaryIO, answers: BinaryIO) -> None:
    """One answer to each request, in order."""
    _send(answers, {"ready": PROTOCOL})
    for line in requests:
        if not line.endswith(b"\n"):
            return
        request = json.loads(line)
        # SIGALRM's default action ends the process even while libslurm hangs with the interpreter locked.
        signal.setitimer(signal.ITIMER_REAL, max(float(request["deadline"]), 0.001))
        answer = _answer(operations, request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(answers, {"id": request["id"], **answer})


def _answer(operations: Operations, request: dict[str, Any]) -> dict[str, Any]:
    os.environ["SLURM_JWT"] = request["token"]
    try:
        return {"result": operations[request["op"]](**request["args"])}
    except Exception as error:  # noqa: BLE001  (the edge of the process: every failure becomes an answer)
        return {"error": _told(error, request["token"])}


def _told(error: Exception, token: str) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}".replace(token or "\0", "(token)")
    number = getattr(error, "errno", None)
    return {"errno": number if isinstance(number, int) else None, "text": text[:400]}


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


@functools.lru_cache(maxsize=1)
def _slurm() -> Any:
    """pyslurm, loaded at the first call: libslurm chooses the token as its way to sign in when it starts."""
    os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
    import pyslurm  # noqa: PLC0415  (this file is also loaded where there is no pyslurm)

    pyslurm.slurm_init()
    return pyslurm


_NODE = (
    "name", "state", "reason", "reason_user", "reason_time", "boot_time", "slurmd_start_time", "comment",
    "configured_gres", "address",
)  # fmt: skip
_JOB = (
    "id", "state", "is_cronjob", "array_id", "array_task_id", "array_tasks_waiting", "heterogeneous_id",
    "heterogeneous_offset", "name", "user_name", "partition", "submit_time", "start_time", "eligible_time",
    "end_time", "requeue_count", "is_batch_job", "is_requeueable", "priority", "state_reason",
    "allocated_nodes", "required_nodes", "comment", "dependencies", "reservation", "exit_code",
    "exit_code_signal",
)  # fmt: skip
_RESERVATION = ("name", "nodes", "users", "start_time", "end_time")
_CONFIG = (
    "version", "kill_wait_time", "min_job_age", "slurmd_timeout", "job_file_append", "slurmctld_boot_time",
)  # fmt: skip


def _fields(record: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _nodes() -> list[dict[str, Any]]:
    return [_fields(node, _NODE) for node in _slurm().Nodes.load().values()]


def _node(name: str) -> list[dict[str, Any]]:
    """Asked for by name, pyslurm tells an unknown node and a failure alike."""
    try:
        return [_fields(_slurm().Node.load(name), _NODE)]
    except _slurm().RPCError:
        return [node for node in _nodes() if node["name"] == name]


def _jobs() -> list[dict[str, Any]]:
    return [_fields(job, _JOB) for job in _slurm().Jobs.load().values()]


def _job(job_id: int) -> list[dict[str, Any]]:
    """The id of an array brings all its tasks, of which pyslurm keeps the first."""
    try:
        found = _fields(_slurm().Job.load(job_id), _JOB)
    except _slurm().RPCError as error:
        if error.errno == 2017:
            return []
        raise
    return [found] if found["id"] == job_id else [job for job in _jobs() if job["id"] == job_id]


def _reservations() -> list[dict[str, Any]]:
    flags = list(_slurm().ReservationFlags)
    loaded = _slurm().Reservations.load().values()
    return [
        {**_fields(found, _RESERVATION), "flags": [flag.name for flag in flags if flag in found.flags]}
        for found in loaded
    ]


def _config() -> dict[str, Any]:
    return _fields(_slurm().slurmctld.Config.load(), _CONFIG)


def _ping() -> None:
    _slurm().slurmctld.ping_primary()


def _update_node(name: str, **changes: str) -> None:
    _slurm().Node(name).modify(_slurm().Node(**changes))


def _set_down(name: str, reason: str) -> bool:
    """False, and nothing done, where an expedited job, which pyslurm does not show, would start at once."""
    if "enable_expedited_requeue" in str(_slurm().slurmctld.Config.load().slurmctld_parameters):
        return False
    _update_node(name, state="DOWN", reason=reason)
    return True


def _requeue(job_id: int) -> None:
    _slurm().Job(job_id).requeue()


def _update_job(job_id: int, **changes: Any) -> None:
    _slurm().Job(job_id).modify(_slurm().JobSubmitDescription(**changes))


def _resize_reservation(name: str, nodes: list[str]) -> None:
    change = _slurm().Reservation(name)
    change.nodes = ",".join(nodes)
    change.modify()


def _delete_reservation(name: str) -> None:
    _slurm().Reservation(name).delete()


OPERATIONS: Operations = {
    "node": _node,
    "nodes": _nodes,
    "job": _job,
    "jobs": _jobs,
    "reservations": _reservations,
    "config": _config,
    "ping": _ping,
    "update_node": _update_node,
    "set_down": _set_down,
    "requeue": _requeue,
    "update_job": _update_job,
    "resize_reservation": _resize_reservation,
    "delete_reservation": _delete_reservation,
}

if __name__ == "__main__":
    main(OPERATIONS)
