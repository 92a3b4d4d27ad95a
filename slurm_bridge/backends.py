"""Which ways to Slurm the settings name."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.clock import Clock
from remediator.settings.tree import Slurm
from slurm_bridge.either import EitherSlurm
from slurm_bridge.port import SlurmPort
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from slurm_bridge.rest.backend import RestSlurm
from slurm_bridge.rest.token import FileToken


@dataclass(frozen=True)
class Backends:
    """The port that is used, and the backends behind it: at least one."""

    port: SlurmPort
    rest: RestSlurm | None = None
    pyslurm: PyslurmSlurm | None = None


def open_slurm(slurm: Slurm, clock: Clock) -> Backends:
    """REST, the pyslurm worker, or REST with the worker for what it cannot do; nothing is asked yet."""
    token = FileToken(slurm.token_path)
    worker = slurm.pyslurm_socket if slurm.backend != "rest" else None
    pyslurm = PyslurmSlurm(Channel(worker, token, clock)) if worker else None
    rest = RestSlurm(slurm.url, slurm.user, token, clock) if slurm.backend != "pyslurm" else None
    return joined(rest, pyslurm, clock)


def joined(rest: RestSlurm | None, pyslurm: PyslurmSlurm | None, clock: Clock) -> Backends:
    """One port of what there is; REST first."""
    if rest is None or pyslurm is None:
        port = rest or pyslurm
        if port is None:
            raise ValueError("neither REST nor pyslurm")
        return Backends(port, rest, pyslurm)
    return Backends(EitherSlurm(rest, pyslurm, clock), rest, pyslurm)
