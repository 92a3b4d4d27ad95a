from __future__ import annotations

import subprocess
import sys

from remediator.run.controller import LOST_LEADERSHIP

CODE = """
import threading
from remediator.observe import logs
from remediator.run.controller import unforeseen
logs.configure("info")
threading.excepthook = unforeseen
def lease():
    raise LookupError("a bug")
thread = threading.Thread(target=lease, name="lease")
thread.start()
thread.join()
print("half alive")
"""


def test_a_thread_that_fails_ends_the_process_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == LOST_LEADERSHIP
    assert "half alive" not in done.stdout
    said = done.stdout + done.stderr
    assert "thread lease failed" in said
    assert "LookupError" in said
