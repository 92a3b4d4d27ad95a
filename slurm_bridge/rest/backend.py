"""SlurmPort over slurmrestd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from remediator.clock import Clock
from remediator.errors import BadInput, Blocked, GiveUp, Retry
from slurm_bridge import names
from slurm_bridge.model import SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.rest import decode
from slurm_bridge.rest.fields import number
from slurm_bridge.rest.refusals import (
    ESLURM_INVALID_JOB_ID,
    ESLURM_INVALID_NODE_NAME,
    ESLURM_JOB_NOT_PENDING,
    ESLURM_JOB_PENDING,
    error_numbers,
    is_auth_failure,
    is_success,
    refusal,
)
from slurm_bridge.rest.token import TokenSource, origin
from slurm_bridge.rest.transport import Answer, Transport
from slurm_bridge.rest.version import NEWEST, probe

T = TypeVar("T")
_LONG_AGO = {"set": True, "infinite": False, "number": 1}


class RestSlurm:
    """The REST backend; `user` must be the name inside the token."""

    def __init__(self, url: str, user: str, token: TokenSource, clock: Clock) -> None:
        self._http = Transport(url, user, clock)
        self._token = token
        self._version = 0

    # reads

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """See SlurmPort."""
        self._start(deadline)
        answer = self._get(f"node/{names.node_name(name)}")
        doing = f"read node {name}"
        if ESLURM_INVALID_NODE_NAME in error_numbers(answer):
            return None
        if _says_nothing(answer):
            # 26.05 answers an unknown node with HTTP 200 and error number 0: ask for all of them.
            return next((node for node in self._all_nodes() if node.name == name), None)
        found = _decoded(_whole(answer, doing), "nodes", decode.node, doing)
        if [node.name for node in found] != [name]:
            raise Retry(f"{doing}: slurmrestd answered with something else")
        return found[0]

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        self._start(deadline)
        return self._all_nodes()

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort."""
        self._start(deadline)
        doing = f"read job {job_id}"
        answer = self._get(f"job/{names.job_address(str(job_id))}")
        if answer.status == 404 and error_numbers(answer) == [ESLURM_INVALID_JOB_ID]:
            return None
        # The id of an array brings all its tasks; one of them carries the id itself.
        for found in _decoded(_whole(answer, doing), "jobs", decode.job, doing):
            if found.job_id == job_id:
                return found
        raise Retry(f"{doing}: slurmrestd answered with something else")

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort."""
        self._start(deadline)
        doing = "list jobs"
        body = _whole(self._get("jobs/"), doing)
        if not number(body.get("last_update")):
            raise Retry(f"{doing}: the answer does not come from slurmctld")
        return _decoded(body, "jobs", decode.job, doing)

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort. Before v0.0.45 only the version can be seen."""
        self._start(deadline)
        doing = "read slurm.conf"
        if not self._is_newest():
            return SlurmConfig(version=decode.version(_whole(self._get("ping/"), doing)))
        try:
            return decode.config(_whole(self._get("conf"), doing))
        except BadInput as error:
            raise Retry(f"{doing}: {error}") from error

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._start(deadline)
        self._ping()

    # writes

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._update_node(node, {"state": ["DRAIN"], "reason": names.reason(reason)}, "drain", deadline)

    def resume(self, node: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._update_node(node, {"state": ["RESUME"]}, "resume", deadline)

    def requeue(self, job: SlurmJob, *, deadline: float) -> None:
        """See SlurmPort. Blocked below v0.0.45; slurmctld must answer a ping right before."""
        address = names.job_address(job.address)
        self._start(deadline)
        if not self._is_newest():
            raise Blocked(f"requeue {address}: REST can requeue only from Slurm 26.05 (v0.0.45) on")
        # A requeue that waits in slurmrestd for a dead slurmctld would land later, on another run.
        self._ping()
        answer = self._post("jobs/requeue", {"jobs": [address]})
        if not is_success(answer) and not _only(answer, ESLURM_JOB_PENDING):
            raise refusal(answer, f"requeue {address}", write=True)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        address = names.job_address(str(job_id))
        self._start(deadline)
        answer = self._post(f"job/{address}", {"begin_time": _LONG_AGO})
        if not is_success(answer) and not _only(answer, ESLURM_JOB_NOT_PENDING):
            raise refusal(answer, f"start job {address}", write=True)

    # shared

    def _update_node(self, node: str, change: dict[str, Any], verb: str, deadline: float) -> None:
        path = f"node/{names.node_name(node)}"
        self._start(deadline)
        answer = self._post(path, change)
        if not is_success(answer):
            raise refusal(answer, f"{verb} {node}", write=True)

    def _all_nodes(self) -> tuple[SlurmNode, ...]:
        doing = "list nodes"
        found = _decoded(_whole(self._get("nodes/"), doing), "nodes", decode.node, doing)
        if not found:
            raise Retry(f"{doing}: the answer is empty")
        return found

    def _ping(self) -> None:
        answer = self._get("ping/")
        pings = _whole(answer, "ping slurmctld").get("pings")
        first = pings[0] if isinstance(pings, list) and pings else None
        if not isinstance(first, dict) or first.get("responding") is not True:
            raise Retry("slurmctld does not answer slurmrestd (or the token has expired)")

    def _start(self, deadline: float) -> None:
        self._http.start(deadline)

    def _parser(self) -> int:
        return self._version or self._probe()

    def _probe(self) -> int:
        self._version = probe(lambda path: self._send(partial(self._http.get, path)))
        return self._version

    def _is_newest(self) -> bool:
        """Slurm may have been upgraded since the last probe."""
        return self._parser() >= NEWEST or self._probe() >= NEWEST

    def _get(self, path: str) -> Answer:
        return self._send(partial(self._http.get, f"/slurm/v0.0.{self._parser()}/{path}"))

    def _post(self, path: str, body: dict[str, Any]) -> Answer:
        full = f"/slurm/v0.0.{self._parser()}/{path}"
        return self._send(lambda token: self._http.post(full, token, body))

    def _send(self, call: Callable[[str], Answer]) -> Answer:
        """One exchange; once more only when the token was refused and has been renewed meanwhile."""
        token = self._token()
        answer = call(token)
        if is_auth_failure(answer) and (renewed := self._token()) != token:
            answer = call(renewed)
        if is_auth_failure(answer):
            where = origin(self._token)
            raise GiveUp(f"token refused by Slurm (expired, or another user's or cluster's): renew {where}")
        if answer.status == 404 and answer.body is None:
            self._version = 0
        return answer


def _only(answer: Answer, wanted: int) -> bool:
    """Slurm's only complaint is `wanted`."""
    return set(error_numbers(answer)) == {wanted}


def _says_nothing(answer: Answer) -> bool:
    return answer.status in {200, 404} and error_numbers(answer) == [0]


def _whole(answer: Answer, doing: str) -> dict[str, Any]:
    if answer.body is None or not is_success(answer):
        raise refusal(answer, doing, write=False)
    return answer.body


def _decoded(body: dict[str, Any], key: str, one: Callable[[dict[str, Any]], T], doing: str) -> tuple[T, ...]:
    try:
        return tuple(one(raw) for raw in decode.records(body, key))
    except BadInput as error:
        raise Retry(f"{doing}: cannot read the answer: {error}") from error
