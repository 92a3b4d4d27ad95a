"""`make demo` itself: the whole story in a lab of its own, by its exit status and last lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_the_demo_keeps_every_promise() -> None:
    environment = os.environ | {"REMEDIATOR_LAB": f"second-{os.getpid()}"}
    command = [sys.executable, "-m", "deploy.lab.demo"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, weights, restarts, spare, queue, untouched, audit, last = done.stdout.splitlines()
    assert re.fullmatch(r"weights: (\w{64}) == \1", weights)
    assert restarts == "restarts: 1, steps recomputed: 0"
    assert re.fullmatch(r"spare: gpu-4 in for gpu-[0-3]", spare)
    assert "came back first, no reservation left" in queue
    assert untouched.count("job ") == 4
    assert re.fullmatch(r"audit: ok \(\d+ records\)", audit)
    assert last == "PASS"
