"""Answers as slurmrestd 26.05.5 gives them, cut to the fields that matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.servers.wire import Reply, Request, reply_json

META = {"plugin": {"data_parser": "data_parser/v0.0.45"}, "slurm": {"release": "26.05.5"}}


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
NODE = {
    "name": "gpu-0",
    "state": ["IDLE", "DYNAMIC_NORM"],
    "reason": "",
    "reason_set_by_user": "",
    "reason_changed_at": number(0),
    "boot_time": number(1795971263),
    "slurmd_start_time": number(1795972091),
    "comment": "",
    "gres": "gpu:8",
    "address": "127.0.0.1",
}
JOB = {
    "job_id": 1,
    "array_job_id": number(0),
    "array_task_id": UNSET,
    "het_job_id": number(0),
    "het_job_offset": number(0),
    "name": "train",
    "user_name": "alice",
    "partition": "gpu",
    "job_state": ["RUNNING"],
    "flags": ["PARTITION_ASSIGNED"],
    "submit_time": number(1795972139),
    "start_time": number(1795972140),
    "eligible_time": number(1795972139),
    "restart_cnt": 0,
    "batch_flag": True,
    "requeue": True,
    "hold": False,
    "state_reason": "None",
    "nodes": "gpu-[0-1]",
    "required_nodes": "",
    "comment": "",
    "dependency": "",
    "resv_name": "",
    "exit_code": {
        "status": ["SIGNALED"],
        "return_code": UNSET,
        "signal": {"id": number(15), "name": "TERM"},
    },
}
RESERVATION = {
    "name": "maint_1",
    "node_list": "gpu-[0-1]",
    "users": "root,alice",
    "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES"],
    "start_time": number(1795972000),
    "end_time": number(1795975600),
}
PING = {"pings": [{"hostname": "box", "responding": True, "primary": True, "status": "No error"}]}
CONF = {
    "slurm_conf": {"KillWait": 120, "MinJobAge": 300, "SlurmdTimeout": 30, "JobFileAppend": True},
    "slurm_conf_meta": {"BOOT_TIME": 1795972091, "SLURM_VERSION": "26.05.5"},
}


def whole(body: dict[str, Any]) -> dict[str, Any]:
    return {"last_update": number(1795972200), **body, "meta": META, "errors": [], "warnings": []}


def error(number: int, text: str = "some error", **body: object) -> dict[str, Any]:
    entry = {"description": "Failure", "error_number": number, "error": text, "source": "x"}
    return {**body, "meta": META, "errors": [entry], "warnings": []}


ENDPOINT_MISSING = Reply(404, b"Unable to find requested URL endpoint.")
GOOD: dict[str, Reply] = {
    "ping/": reply_json(whole(PING)),
    "conf": reply_json(whole(CONF)),
    "node/gpu-0": reply_json(whole({"nodes": [NODE]})),
    "nodes/": reply_json(whole({"nodes": [NODE, {**NODE, "name": "gpu-1"}]})),
    "job/1": reply_json(whole({"jobs": [JOB]})),
    "jobs/": reply_json(whole({"jobs": [JOB]})),
    "reservations/": reply_json(whole({"reservations": [RESERVATION]})),
    "jobs/requeue": reply_json(whole({"status": []})),
}


def slurmrestd(
    overrides: Mapping[str, Reply] = MappingProxyType({}), *, newest: int = 45
) -> Callable[[Request], Reply]:
    """Answer from GOOD, or from `overrides` keyed by path without what follows a question mark."""

    def answer(request: Request) -> Reply:
        version, _, path = request.path.partition("?")[0].removeprefix("/slurm/v0.0.").partition("/")
        if int(version) > newest:
            return ENDPOINT_MISSING
        return overrides.get(path) or GOOD.get(path, ENDPOINT_MISSING)

    return answer
