"""Which backend the settings choose."""

from __future__ import annotations

import pytest

from remediator.clock import ManualClock
from remediator.settings.tree import Slurm
from slurm_bridge.backends import open_slurm
from slurm_bridge.either import EitherSlurm
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.rest.backend import RestSlurm


@pytest.mark.parametrize(
    ("backend", "command", "kind"),
    [
        ("auto", (), RestSlurm),
        ("auto", ("worker",), EitherSlurm),
        ("rest", ("worker",), RestSlurm),
        ("pyslurm", ("worker",), PyslurmSlurm),
    ],
)
def test_the_settings_choose_the_backend(backend: str, command: tuple[str, ...], kind: type) -> None:
    slurm = Slurm.model_validate(
        {"url": "http://slurm-restapi.slurm:6820", "backend": backend, "pyslurm_command": list(command)}
    )
    assert type(open_slurm(slurm, ManualClock())) is kind
