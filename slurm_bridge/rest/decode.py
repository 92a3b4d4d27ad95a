"""JSON of data_parser v0.0.44 and v0.0.45 to the model.

Tolerant in every field but identity and place: a record without a name, or with a node list nobody can
read, would make a job or node invisible, so it makes the whole answer unknown (BadInput).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from remediator.errors import BadInput
from slurm_bridge import hostlist
from slurm_bridge.model import ExitInfo, Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.rest.fields import moment, number, text, words
from slurm_bridge.states import job_state, node_state

_GPU = re.compile(r"(?:^|,)gpu(?::[^:(),]+)?:(\d{1,6})")
_LEADING_ID = re.compile(r"[1-9][0-9]{0,9}")
_expand = lru_cache(maxsize=4096)(hostlist.expand)


def records(body: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The list under `key`, or BadInput when it is missing or holds anything but objects."""
    found = body.get(key)
    if not isinstance(found, list) or any(not isinstance(entry, dict) for entry in found):
        raise BadInput(key, "not a list of records")
    return found


def node(raw: dict[str, Any]) -> SlurmNode:
    """One entry of `nodes`."""
    name = text(raw.get("name"))
    if not name:
        raise BadInput("nodes", "a record without a name")
    state, flags = node_state(raw.get("state"))
    return SlurmNode(
        name=name,
        state=state,
        flags=flags,
        reason=text(raw.get("reason")),
        reason_user=text(raw.get("reason_set_by_user")),
        reason_at=moment(raw.get("reason_changed_at")),
        boot_time=moment(raw.get("boot_time")),
        slurmd_start_time=moment(raw.get("slurmd_start_time")),
        comment=text(raw.get("comment")),
        gres=text(raw.get("gres")),
        address=text(raw.get("address")),
        instance_id=text(raw.get("instance_id")),
    )


def job(raw: dict[str, Any]) -> SlurmJob:
    """One entry of `jobs`."""
    job_id = number(raw.get("job_id"))
    if not job_id:
        raise BadInput("jobs", "a record without a job id")
    state, flags = job_state(raw.get("job_state"))
    array_job_id = number(raw.get("array_job_id")) or None
    het_job_id = number(raw.get("het_job_id")) or None
    return SlurmJob(
        job_id=job_id,
        state=state,
        flags=flags,
        traits=words(raw.get("flags")),
        array_job_id=array_job_id,
        array_task_id=number(raw.get("array_task_id")) if array_job_id else None,
        het_job_id=het_job_id,
        het_job_offset=number(raw.get("het_job_offset")) or 0,
        name=text(raw.get("name")),
        user=text(raw.get("user_name")),
        partition=text(raw.get("partition")),
        submit_time=number(raw.get("submit_time")) or 0,
        start_time=moment(raw.get("start_time")),
        begin_time=moment(raw.get("eligible_time")),
        end_time=moment(raw.get("end_time")),
        restart_count=number(raw.get("restart_cnt")) or 0,
        batch=raw.get("batch_flag") is True,
        requeue=raw.get("requeue") is True,
        held=raw.get("hold") is True,
        state_reason=text(raw.get("state_reason")),
        nodes=_expand(text(raw.get("nodes"))),
        required_nodes=_expand(text(raw.get("required_nodes"))),
        comment=text(raw.get("comment")),
        dependency=text(raw.get("dependency")),
        reservation=text(raw.get("resv_name")),
        gpus=_gpus(raw.get("gres_detail")),
        exit=_exit(raw.get("exit_code")),
    )


def job_in_brief(raw: dict[str, Any]) -> tuple[int, str]:
    """One entry of `jobs/state`: `5`, `5_1` (a task) and `5+1` (a component) begin with the job's own id."""
    leading = _LEADING_ID.match(text(raw.get("job_id")))
    if leading is None:
        raise BadInput("jobs", "a record without a job id")
    return int(leading[0]), job_state(raw.get("state"))[0]


def reservation(raw: dict[str, Any]) -> Reservation:
    """One entry of `reservations`; without nodes or flags it could hide a maintenance."""
    name, nodes, flags = text(raw.get("name")), raw.get("node_list"), raw.get("flags")
    if not name or not isinstance(nodes, str) or not isinstance(flags, list):
        raise BadInput("reservations", "a record without a name, nodes or flags")
    return Reservation(
        name=name,
        nodes=_expand(nodes),
        users=tuple(user for user in text(raw.get("users")).split(",") if user),
        flags=words(flags),
        start=moment(raw.get("start_time")),
        end=moment(raw.get("end_time")),
    )


def _gpus(raw: Any) -> int | None:
    """GPUs in `gres_detail`, one text a node, such as gpu:a100:8(IDX:0-7),nic:1(IDX:0)."""
    if not isinstance(raw, list):
        return None
    return sum(int(count) for entry in raw if isinstance(entry, str) for count in _GPU.findall(entry))


def _exit(raw: Any) -> ExitInfo:
    if not isinstance(raw, dict):
        return ExitInfo()
    status = raw.get("status")
    signal = raw.get("signal")
    return ExitInfo(
        status=",".join(s for s in status if isinstance(s, str)) if isinstance(status, list) else "",
        code=number(raw.get("return_code")),
        signal=number(signal.get("id")) if isinstance(signal, dict) else None,
    )


def version(body: dict[str, Any]) -> str:
    """Slurm's release from the answer's `meta`."""
    meta = body.get("meta")
    slurm = meta.get("slurm") if isinstance(meta, dict) else None
    return text(slurm.get("release")) if isinstance(slurm, dict) else ""


def config(body: dict[str, Any]) -> SlurmConfig:
    """The answer of `/conf` (v0.0.45)."""
    conf, meta = body.get("slurm_conf"), body.get("slurm_conf_meta")
    if not isinstance(conf, dict) or not isinstance(meta, dict):
        raise BadInput("conf", "not a configuration")
    append = conf.get("JobFileAppend")
    return SlurmConfig(
        version=text(meta.get("SLURM_VERSION")) or version(body),
        kill_wait=number(conf.get("KillWait")),
        min_job_age=number(conf.get("MinJobAge")),
        slurmd_timeout=number(conf.get("SlurmdTimeout")),
        job_file_append=append if isinstance(append, bool) else None,
        started_at=number(meta.get("BOOT_TIME")),
        clock=number(meta.get("LastUpdate")),
    )
