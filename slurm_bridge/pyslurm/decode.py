"""What pyslurm's records say, as the model. What it hides makes the call impossible, never a guess."""

from __future__ import annotations

from typing import Any

from slurm_bridge import hostlist
from slurm_bridge.model import ExitInfo, Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.port import Cannot
from slurm_bridge.rest.fields import moment, number, text
from slurm_bridge.states import JOB_BASES, node_state

_FLAGS = {
    "MAINTENANCE": "MAINT",
    "IGNORE_RUNNING_JOBS": "IGNORE_JOBS",
    "SPECIFIC_NODES": "SPEC_NODES",
    "NO_JOB_HOLD_AFTER_END": "NO_HOLD_JOBS_AFTER_END",
}

# pyslurm tells slurmctld's sentence in place of the reason; this one slurmctld writes for one reason only.
_REASONS = {"job requeued in held state": "JobHeldUser"}


def node(raw: dict[str, Any]) -> SlurmNode:
    """One node record."""
    state, flags = node_state(raw["state"])
    reason, gres = text(raw["reason"]), raw["configured_gres"] or {}
    return SlurmNode(
        name=raw["name"],
        state=state,
        flags=flags,
        reason=reason,
        reason_user=text(raw["reason_user"]) if reason else "",
        reason_at=moment(raw["reason_time"]),
        boot_time=moment(raw["boot_time"]),
        slurmd_start_time=moment(raw["slurmd_start_time"]),
        comment=text(raw["comment"]),
        gres=",".join(f"{kind}:{count}" for kind, count in gres.items()),
        address=text(raw["address"]),
    )


def job(raw: dict[str, Any]) -> SlurmJob:
    """One job record; Cannot while a flag such as COMPLETING hides the base state."""
    array = number(raw["array_id"])
    return SlurmJob(
        job_id=raw["id"],
        state=job_base(raw),
        traits=frozenset({"CRON_JOB"}) if raw["is_cronjob"] else frozenset(),
        array_job_id=array,
        array_task_id=_task(raw) if array else None,
        het_job_id=number(raw["heterogeneous_id"]),
        het_job_offset=number(raw["heterogeneous_offset"]) or 0,
        name=text(raw["name"]),
        user=text(raw["user_name"]),
        partition=text(raw["partition"]),
        submit_time=number(raw["submit_time"]) or 0,
        start_time=moment(raw["start_time"]),
        begin_time=moment(raw["eligible_time"]),
        end_time=moment(raw["end_time"]),
        restart_count=number(raw["requeue_count"]) or 0,
        batch=raw["is_batch_job"] is True,
        requeue=raw["is_requeueable"] is True,
        held=raw["priority"] == 0,
        state_reason=_REASONS.get(text(raw["state_reason"]), text(raw["state_reason"])),
        nodes=hostlist.expand(text(raw["allocated_nodes"])),
        required_nodes=hostlist.expand(text(raw["required_nodes"])),
        comment=text(raw["comment"]),
        dependency=_dependency(raw["dependencies"]),
        reservation=text(raw["reservation"]),
        exit=ExitInfo(code=number(raw["exit_code"]), signal=number(raw["exit_code_signal"])),
    )


def job_base(raw: dict[str, Any]) -> str:
    """The base state; Cannot when a flag is told in its place."""
    state = text(raw["state"])
    if state not in JOB_BASES:
        raise Cannot(f"pyslurm: job {raw['id']} is {state}, which hides whether it waits or has ended")
    return state


def reservation(raw: dict[str, Any]) -> Reservation:
    """One reservation."""
    return Reservation(
        name=raw["name"],
        nodes=hostlist.expand(text(raw["nodes"])),
        users=tuple(raw["users"] or ()),
        flags=frozenset(_FLAGS.get(flag, flag) for flag in raw["flags"]),
        start=moment(raw["start_time"]),
        end=moment(raw["end_time"]),
    )


def config(raw: dict[str, Any]) -> SlurmConfig:
    """slurm.conf; slurmctld's clock cannot be seen."""
    append = raw["job_file_append"]
    return SlurmConfig(
        version=text(raw["version"]),
        kill_wait=number(raw["kill_wait_time"]),
        min_job_age=number(raw["min_job_age"]),
        slurmd_timeout=number(raw["slurmd_timeout"]),
        job_file_append=append if isinstance(append, bool) else None,
        started_at=number(raw["slurmctld_boot_time"]),
    )


def _task(raw: dict[str, Any]) -> int | None:
    """The array task; pyslurm tells task 0 as none, as it tells the record of the tasks that wait."""
    task = number(raw["array_task_id"])
    return 0 if task is None and not raw["array_tasks_waiting"] else task


def _dependency(raw: dict[str, Any] | None) -> str:
    """Slurm's text again. pyslurm drops what it cannot read, `singleton` above all: then it says `hidden`,
    which nobody can read either and so counts as a dependency on every job.
    """
    if raw is None:
        return ""
    terms = [f"{kind}:{job}" for kind, jobs in raw.items() if isinstance(jobs, list) for job in jobs]
    return ("?" if raw["satisfy"] == "any" else ",").join(terms) or "hidden:"
