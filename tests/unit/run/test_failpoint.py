"""The crash on demand must be a real death, also for the first process of a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remediator.run.failpoint import KILLED, VARIABLE

PROGRAM = """
import sys, pathlib
from remediator.run.failpoint import from_environment
probe = from_environment(pathlib.Path(sys.argv[1]))
for moment in ("drain-slurm:intent", "drain-slurm:accepted", "fence-node:intent"):
    print(moment, flush=True)
    probe(moment)
"""


def run(folder: Path, armed: str, *before: str) -> tuple[int, list[str]]:
    """Exit status and the moments that were reached."""
    command = [*before, sys.executable, "-c", PROGRAM, str(folder)]
    environment = os.environ | {VARIABLE: armed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout.split()


def test_it_kills_once_at_the_armed_moment_and_never_again(tmp_path: Path) -> None:
    assert run(tmp_path, "drain-slurm:accepted") == (-9, ["drain-slurm:intent", "drain-slurm:accepted"])
    assert run(tmp_path, "drain-slurm:accepted") == (
        0,
        ["drain-slurm:intent", "drain-slurm:accepted", "fence-node:intent"],
    )


def test_unarmed_it_does_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "")[0] == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="a process namespace needs root")
def test_it_kills_the_first_process_of_a_container(tmp_path: Path) -> None:
    alone = ("unshare", "--pid", "--fork", "--kill-child")
    assert run(tmp_path, "drain-slurm:intent", *alone) == (KILLED, ["drain-slurm:intent"])


@pytest.mark.parametrize("armed", ["drain-slurm", "intent", "drain-slurm:intent "])
def test_a_moment_is_met_exactly_or_not_at_all(tmp_path: Path, armed: str) -> None:
    assert run(tmp_path, armed)[0] == 0
    assert not list(tmp_path.iterdir())


def test_another_moment_is_another_drill(tmp_path: Path) -> None:
    for armed in ("drain-slurm:intent", "fence-node:intent"):
        assert run(tmp_path, armed)[0] == -9


def test_several_moments_are_one_death_each(tmp_path: Path) -> None:
    armed = "fence-node:intent,drain-slurm:intent"
    assert run(tmp_path, armed) == (-9, ["drain-slurm:intent"])
    reached = ["drain-slurm:intent", "drain-slurm:accepted", "fence-node:intent"]
    assert run(tmp_path, armed) == (-9, reached)
    assert run(tmp_path, armed) == (0, reached)
