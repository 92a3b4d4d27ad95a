"""The demo's command: what it says when it cannot even begin."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def demo(cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"REMEDIATOR_CACHE": str(cache)} | variables
    command = [sys.executable, "-m", "deploy.lab.demo"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_second_demo_in_the_same_lab_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    with (tmp_path / "locks" / "demo-mine.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        done = demo(tmp_path, REMEDIATOR_LAB="mine")
    assert done.returncode == 1
    assert "a demo runs in lab mine already: wait, or set REMEDIATOR_LAB to another name" in done.stdout
    assert done.stderr == ""


def test_an_unknown_sabotage_ends_with_status_2_and_the_ones_there_are(tmp_path: Path) -> None:
    done = demo(tmp_path, DEMO_BREAK="resum")
    assert (done.returncode, done.stderr) == (2, "")
    assert "use one of resume, requeue, spare, queue, audit, or unset it" in done.stdout
