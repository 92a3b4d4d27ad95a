"""Slurm's error numbers and what each means for the caller, the same over REST and libslurm."""

from __future__ import annotations

from remediator.errors import BadInput, Blocked, GiveUp, RemediatorError, Retry

ESLURM_PROTOCOL_AUTHENTICATION = 1007
ESLURM_CONNECT_FAILED = 1800
ESLURM_INVALID_JOB_ID = 2017
ESLURM_INVALID_NODE_NAME = 2018
ESLURM_JOB_PENDING = 2024
ESLURM_RESERVATION_INVALID = 2053
ESLURM_JOB_NOT_PENDING = 2073
ESLURM_JOB_FINISHED = 2084

_RIGHTS = "Slurm refuses our user: the token must be of SlurmUser, root or an operator"
_MEANING: dict[int, tuple[type[RemediatorError], str]] = {
    1002: (GiveUp, "{speaker} and slurmctld speak different protocol versions"),
    1005: (GiveUp, "{speaker} and slurmctld speak different protocol versions"),
    ESLURM_CONNECT_FAILED: (Retry, "{speaker} cannot connect to slurmctld"),
    2002: (GiveUp, _RIGHTS),
    2010: (GiveUp, _RIGHTS),
    2021: (Blocked, "the job is already over"),
    2037: (Blocked, "the job may not be requeued (Requeue=0), or its partition is gone"),
    2039: (Blocked, "the job has no batch script (salloc or srun)"),
    2052: (Blocked, "the job's owner may not use the reservation"),
    2054: (GiveUp, "slurmctld refuses the start time: its clock and ours differ"),
    2055: (Blocked, "a job is still in the reservation"),
    2058: (Blocked, "another reservation holds one of the nodes"),
    ESLURM_JOB_FINISHED: (Blocked, "the job is already over"),
    2096: (Blocked, "only scrontab itself may change a scrontab job"),
    2104: (Blocked, "a reservation of this name has begun already"),
    2180: (Blocked, "the node is not in a state that allows this change"),
    2202: (GiveUp, _RIGHTS),
}
_INPUT: dict[int, tuple[str, str]] = {
    ESLURM_INVALID_JOB_ID: ("job", "slurmctld knows no such job (any more)"),
    ESLURM_INVALID_NODE_NAME: ("node", "slurmctld knows no such node"),
    ESLURM_RESERVATION_INVALID: ("reservation", "slurmctld knows no such reservation, or none of its nodes"),
    2107: ("job", "not the leader of its heterogeneous job: name the leader"),
    2207: ("node", "slurmctld knows no such node"),
}


def meaning(number: int, doing: str, speaker: str) -> RemediatorError | None:
    """The error for a number, None for one that is not in the tables; `doing` is like `drain gpu-0`,
    `speaker` the program that speaks to slurmctld for us.
    """
    if number in _INPUT:
        return BadInput(_INPUT[number][0], f"{doing}: {_INPUT[number][1]}")
    if number in _MEANING:
        kind, text = _MEANING[number]
        return kind(f"{doing}: {text.format(speaker=speaker)}")
    return None
