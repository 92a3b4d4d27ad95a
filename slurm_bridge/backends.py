"""Which backend the settings name."""

from __future__ import annotations

from remediator.clock import Clock
from remediator.settings.tree import Slurm
from slurm_bridge.either import EitherSlurm
from slurm_bridge.port import SlurmPort
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from slurm_bridge.rest.backend import RestSlurm
from slurm_bridge.rest.token import FileToken


def open_slurm(slurm: Slurm, clock: Clock) -> SlurmPort:
    """REST, the pyslurm worker, or REST with the worker for what it cannot do; nothing is asked yet."""
    token = FileToken(slurm.token_path)
    rest = RestSlurm(slurm.url, slurm.user, token, clock)
    if slurm.backend == "rest" or not slurm.pyslurm_command:
        return rest
    pyslurm = PyslurmSlurm(Channel(slurm.pyslurm_command, token, clock, {}))
    return pyslurm if slurm.backend == "pyslurm" else EitherSlurm(rest, pyslurm, clock)
