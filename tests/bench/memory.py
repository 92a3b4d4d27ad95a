"""Resident memory of the service's processes in the lab."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.lab.api import Lab
from deploy.lab.spec import NODES
from tests.bench.figures import Figure

_RSS = re.compile(r"VmRSS:\s*(\d+) kB")
_KINDS = {"controller": re.compile(r"remediator\0controller"), "agent": re.compile(r"remediator\.agent")}


def resident(lab: Lab, when: str) -> list[Figure]:
    """One row per kind of process, a sample per process; their pods' limits are the goal."""
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for spec in NODES:
        for pid in lab.node(spec.name).group.processes():
            kind = _kind(pid)
            if kind:
                found[kind].append(_mebibytes(pid))
    return [
        Figure(f"memory of {kind}, {when}", "MiB", tuple(sizes)) for kind, sizes in found.items() if sizes
    ]


def _kind(pid: int) -> str:
    command = _read(pid, "cmdline")
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(command)), "")


def _mebibytes(pid: int) -> float:
    found = _RSS.search(_read(pid, "status"))
    return int(found[1]) / 1024 if found else 0.0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
