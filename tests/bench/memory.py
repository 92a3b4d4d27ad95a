"""Memory of the service's processes in the lab, and what an agent that reads eight GPUs takes of a core."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.api import Lab
from deploy.lab.spec import NODES
from tests.bench.figures import Figure, Goal

_RSS = re.compile(r"VmRSS:\s*(\d+) kB")
GOALS = {"agent": Goal(p99=40.0)}
AT_REST_S = 30.0
"""Three readings of the GPUs at the default interval, and six scrapes."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_KINDS = {"controller": re.compile(r"remediator\0controller"), "agent": re.compile(r"remediator\.agent")}


def resident(lab: Lab, when: str) -> list[Figure]:
    """One row per kind of process, a sample per process: what is resident (VmRSS), in 10^6 bytes."""
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for kind, pid in _processes(lab):
        found[kind].append(_megabytes(pid))
    return [
        Figure(f"memory of {kind}, {when}", "MB", tuple(sizes), goal=GOALS.get(kind, Goal()))
        for kind, sizes in found.items()
        if sizes
    ]


def busy(lab: Lab) -> list[Figure]:
    """Per cent of a core that each agent takes while nothing happens."""
    before = {pid: _cpu_s(pid) for kind, pid in _processes(lab) if kind == "agent"}
    time.sleep(AT_REST_S)
    shares = tuple(100 * (_cpu_s(pid) - seconds) / AT_REST_S for pid, seconds in before.items())
    return [Figure("core taken by agent, at rest", "%", shares, goal=Goal(p99=1.0))] if shares else []


def _processes(lab: Lab) -> Iterator[tuple[str, int]]:
    for spec in NODES:
        for pid in lab.node(spec.name).group.processes():
            if kind := _kind(pid):
                yield kind, pid


def _kind(pid: int) -> str:
    command = _read(pid, "cmdline")
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(command)), "")


def _megabytes(pid: int) -> float:
    found = _RSS.search(_read(pid, "status"))
    return int(found[1]) * 1024 / 1e6 if found else 0.0


def _cpu_s(pid: int) -> float:
    """Seconds in user and kernel mode; the name in brackets may hold blanks."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S if fields else 0.0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
