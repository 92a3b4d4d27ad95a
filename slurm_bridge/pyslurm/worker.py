"""The pyslurm worker, one file: the standard library and pyslurm only, for Slurm's own Python (3.9 or newer).

`worker.py PATH` listens at a Unix socket. Each connection gets a process of its own, which answers one JSON
request a line, `{"id", "op", "args", "token", "deadline"}`, with `{"id", "result"}` or
`{"id", "error": {"errno", "text"}}`. It is killed when whoever asks hangs up, and a call that takes longer
than its deadline ends it from inside. The process that listens loads no libslurm, so it never hangs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, NoReturn

PROTOCOL = 1
Operations = Mapping[str, Callable[..., Any]]


def main(operations: Operations, path: str) -> None:
    """Listen at `path` until told to end. A first process of a container has to hear SIGTERM by itself."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(path)
        os.chmod(path, 0o666)  # noqa: S103  (who may do what is for each call's token to say)
        door.listen()
        Listener(operations, door).run()


class Listener:
    """One child for each connection: whichever of the two ends first takes the other with it."""

    def __init__(self, operations: Operations, door: socket.socket) -> None:
        self._operations = operations
        self._door = door
        self._events = select.poll()
        self._children: dict[int, _Child] = {}

    def run(self) -> None:
        """Until told to end; its children end with it."""
        self._events.register(self._door, select.POLLIN)
        try:
            while True:
                self._turn()
        finally:
            for child in set(self._children.values()):
                child.kill()

    def _turn(self) -> None:
        numbers = [number for number, _ in self._events.poll()]
        # The door comes last: a new connection may be given the number of one that has ended.
        for number in numbers:
            child = self._children.get(number)
            if child is not None and number == child.ended:
                self._bury(child)
            elif child is not None:
                self._forget(number)
                child.kill()
        if self._door.fileno() in numbers:
            self._open()

    def _open(self) -> None:
        connection, _ = self._door.accept()
        pid = os.fork()
        if pid == 0:
            self._serve(connection)
        child = _Child(connection, pid, os.pidfd_open(pid))
        for number, event in ((connection.fileno(), select.POLLRDHUP), (child.ended, select.POLLIN)):
            self._children[number] = child
            self._events.register(number, event)

    def _serve(self, connection: socket.socket) -> NoReturn:
        """The child's whole life; nothing of its parent's is run on the way out."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._door.close()
            for other in set(self._children.values()):
                other.close()
            with connection.makefile("rb") as requests, connection.makefile("wb") as answers:
                serve(self._operations, requests, answers)
        finally:
            os._exit(0)

    def _bury(self, child: _Child) -> None:
        for number in (child.connection.fileno(), child.ended):
            self._forget(number)
        os.waitpid(child.pid, 0)
        child.close()

    def _forget(self, number: int) -> None:
        if self._children.pop(number, None) is not None:
            self._events.unregister(number)


class _Child:
    """A process that answers one connection; `ended` can be read from once it is dead."""

    def __init__(self, connection: socket.socket, pid: int, ended: int) -> None:
        self.connection = connection
        self.pid = pid
        self.ended = ended

    def kill(self) -> None:
        """Its number is its own until it is waited for. One that sleeps in the kernel dies when it wakes."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close what this process holds of it."""
        self.connection.close()
        os.close(self.ended)


def serve(operations: Operations, requests: BinaryIO, answers: BinaryIO) -> None:
    """One answer to each request, in order; a line that is not whole was never asked."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
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
    """Asked for by name, pyslurm tells an unknown node and a failure alike, and MIXED may be what was true
    when somebody last listed all nodes.
    """
    try:
        found = [_fields(_slurm().Node.load(name), _NODE)]
    except _slurm().RPCError:
        found = []
    known = any("MIXED" not in node["state"] for node in found)
    return found if known else [node for node in _nodes() if node["name"] == name]


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


def _about() -> dict[str, str]:
    slurm = _slurm()
    return {"pyslurm": slurm.__version__, "python": platform.python_version()}


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


def _requeue(job_id: int, held: bool) -> None:
    _slurm().Job(job_id).requeue(hold=held)


def _hold(job_id: int) -> None:
    _slurm().Job(job_id).hold()


def _release(job_id: int) -> None:
    _slurm().Job(job_id).release()


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
    "about": _about,
    "ping": _ping,
    "update_node": _update_node,
    "set_down": _set_down,
    "requeue": _requeue,
    "hold": _hold,
    "release": _release,
    "update_job": _update_job,
    "resize_reservation": _resize_reservation,
    "delete_reservation": _delete_reservation,
}

if __name__ == "__main__":
    main(OPERATIONS, sys.argv[1])
