"""Which machine the figures are from: without it no figure means anything."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

from remediator.store.engine import journal_mode


def describe(folder: Path) -> dict[str, Any]:
    """CPU, memory, kernel, the file system under `folder`, and versions that matter."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "kernel": platform.release(),
        "file_system": _file_system(folder),
        "python": platform.python_version(),
        "sqlite": f"{sqlite3.sqlite_version}, journal {journal_mode()}, synchronous EXTRA",
    }


def load() -> float:
    """Processes that want to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 1)


def busy(seconds: float) -> float:
    """Share of the processors' time that was used over the next `seconds`, 0 to 1."""
    spent, idle = _ticks()
    time.sleep(seconds)
    later, still_idle = _ticks()
    return 1 - (still_idle - idle) / max(1, later - spent)


def _ticks() -> tuple[int, int]:
    """All, and those spent idle or waiting for the disk, since the machine started."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def _file_system(folder: Path) -> str:
    command = ["stat", "--file-system", "--format=%T", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
