"""What must be on the machine before anything is built: checked, never installed, one line a thing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# room that building each part takes, caches of Go and pip included; about 13 GiB in all
DISK_GIB = {
    "gobin": 7.0,
    "slurm-root": 1.0,
    "python-root": 0.5,
    "pyslurm": 0.2,
    "venv": 0.8,
    "debs": 0.4,
    "images": 2.5,
    "golden": 0.2,
}
MIN_GO = (1, 26)
MIN_PYTHON = (3, 11)


def missing_for(parts: Sequence[str], cache: Path) -> list[str]:
    """One line per prerequisite that these parts lack, each with what to do; empty when all is well."""
    problems = [
        python_problem(sys.version_info[:2]),
        *platform_problems(),
        go_problem(go_version_text()) if "gobin" in parts else None,
        disk_problem(shutil.disk_usage(cache).free / 2**30, sum(DISK_GIB.get(part, 0.1) for part in parts)),
    ]
    return [problem for problem in problems if problem]


def python_problem(version: tuple[int, ...]) -> str | None:
    """A line when the running Python is too old."""
    if version >= MIN_PYTHON:
        return None
    found = ".".join(str(n) for n in version)
    return (
        f"Python >= 3.11 is needed, this is {found}: install it and run `make PYTHON=/path/to/python3.11 ...`"
    )


def platform_problems() -> list[str | None]:
    """Lines about the kernel, the user and the package manager."""
    on_linux = platform.system() == "Linux"
    return [
        None if on_linux else f"Linux is needed, this is {platform.system()}",
        None
        if os.geteuid() == 0
        else "root is needed (namespaces, mounts, chroot): run this as root, e.g. with sudo",
        None if shutil.which("apt-get") else "apt-get is needed: use a Debian or Ubuntu machine",
        namespaces_problem() if on_linux and os.geteuid() == 0 else None,
    ]


def namespaces_problem() -> str | None:
    """A line when this root may not make namespaces, as in an unprivileged container."""
    if not shutil.which("unshare"):
        return None  # util-linux comes with the part `apt`
    done = subprocess.run(
        ["unshare", "-m", "-n", "-p", "-u", "-i", "-f", "true"], capture_output=True, check=False
    )
    if done.returncode == 0:
        return None
    return "this root may not make namespaces: use a machine or a privileged container (CAP_SYS_ADMIN)"


def go_version_text() -> str | None:
    """What `go version` says, None without Go."""
    try:
        done = subprocess.run(["go", "version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip()


def go_problem(text: str | None) -> str | None:
    """A line when Go is missing or too old; `text` is the output of `go version`."""
    wanted = ".".join(str(n) for n in MIN_GO)
    if text is None:
        return f"Go >= {wanted} is needed: install it and put its bin folder on PATH"
    found = re.search(r"go(\d+)\.(\d+)", text)
    if found and (int(found[1]), int(found[2])) >= MIN_GO:
        return None
    return f"Go >= {wanted} is needed, found {found[0] if found else text}: put a newer one first on PATH"


def disk_problem(free_gib: float, wanted_gib: float) -> str | None:
    """A line when the disk that holds the cache has too little room, both in GiB."""
    if free_gib >= wanted_gib:
        return None
    return (
        f"{wanted_gib:.0f} GiB of free disk are needed, {free_gib:.0f} GiB are free: "
        "make room or set REMEDIATOR_CACHE to a folder on a larger disk"
    )
