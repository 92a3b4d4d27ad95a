"""The parts that live on the host itself: a few apt packages, and the development environment in .venv."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import threading
import tomllib
from pathlib import Path

from deploy.setup import process, progress
from deploy.setup.cache import REPO, Part, key_of
from deploy.setup.errors import SetupError

APT = "apt (the distribution's package archive)"
PYPI = "pip (the Python package index)"
DEV_LOCK = REPO / "deploy/locks/dev.txt"

# program or file that must be there -> the package that brings it; none of them starts a service
HOST_TOOLS = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "modprobe": "kmod",
    "ps": "procps",
    "gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "openssl": "openssl",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}
APT_OPTIONS = [
    "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30",
    "-o", "DPkg::Lock::Timeout=300", "-o", "APT::Sandbox::User=root",
]  # fmt: skip
_update_lock = threading.Lock()
_updated = False


def apt_part() -> Part:
    """Host tools of the distribution, only those that are missing."""
    return Part(
        name="apt",
        path=Path("/usr/bin"),
        key=key_of(*HOST_TOOLS),
        build=lambda _: install(missing_packages()),
        in_place=True,
        current=lambda: not missing_packages(),
    )


def missing_packages() -> list[str]:
    """Packages to install, from the programs and files that are not there."""
    found = {package: _present(thing) for thing, package in HOST_TOOLS.items()}
    wanted = [package for package, present in found.items() if not present]
    if importlib.util.find_spec("ensurepip") is None:
        wanted.append("python3-venv")
    if not any(Path("/usr/lib").glob("*/libseccomp.so.2")):
        wanted.append("libseccomp2")
    return wanted


def _present(thing: str) -> bool:
    return Path(thing).exists() if thing.startswith("/") else shutil.which(thing) is not None


def install(packages: list[str]) -> None:
    """apt-get install, without recommended packages and without questions."""
    apt_update("apt")
    progress.say("apt", f"installing {' '.join(packages)}")
    apt("apt", ["install", "-y", "--no-install-recommends", *packages])
    left = missing_packages()
    if left:
        raise SetupError(f"apt: still missing after the installation: {' '.join(left)}")


def apt(part: str, arguments: list[str]) -> None:
    """Run apt-get with time limits on its network calls."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    process.run(part, ["apt-get", *APT_OPTIONS, *arguments], deadline=900, registry=APT, env=env)


def apt_update(part: str) -> None:
    """Refresh the package lists, once per run of the setup."""
    global _updated  # noqa: PLW0603 (once per process is the point)
    with _update_lock:
        if not _updated:
            progress.say(part, "apt-get update")
            apt(part, ["update"])
            _updated = True


def venv_part() -> Part:
    """The development environment: .venv in the repository, from the hash-locked list."""
    return Part(
        name="venv",
        path=REPO / ".venv",
        key=key_of("venv 2", DEV_LOCK, project_tables(), ".".join(map(str, sys.version_info[:2]))),
        build=build_venv,
        needs=("apt",),
        in_place=True,
    )


def project_tables() -> str:
    """What the editable install takes from pyproject.toml: settings of linters change nothing in it."""
    content = tomllib.loads((REPO / "pyproject.toml").read_text())
    return json.dumps([content["project"], content["build-system"], content["tool"]["hatch"]], sort_keys=True)


def build_venv(path: Path) -> None:
    """Make the environment, or bring an existing one up to the lock."""
    python = path / "bin" / "python"
    if not works(python):
        progress.say("venv", "making .venv")
        process.run("venv", [sys.executable, "-m", "venv", "--clear", str(path)], deadline=300)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install"]
    progress.say("venv", "installing the locked packages (about 1 min)")
    process.run("venv", [*pip, "--require-hashes", "-r", str(DEV_LOCK)], deadline=1200, registry=PYPI)
    process.run("venv", [*pip, "--no-deps", "--no-build-isolation", "-e", str(REPO)], deadline=300)


def works(python: Path) -> bool:
    """True when this interpreter starts and has pip; a .venv moved from elsewhere, or half made, does not."""
    try:
        process.output([str(python), "-c", "import pip"])
    except (SetupError, OSError):
        return False
    return True
