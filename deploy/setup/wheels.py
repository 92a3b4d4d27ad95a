"""The parts `wheels-*`: locked packages in /opt/venv, installed by the Python root's own pip."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from deploy.setup import chroot, process, progress
from deploy.setup.cache import REPO, Part, cache_root, key_of
from deploy.setup.errors import SetupError
from deploy.setup.host import PYPI
from deploy.setup.roots import PYTHON, root_part

VENV = "/opt/venv"
_PIP_NAMES = ("index-url", "extra-index-url", "trusted-host", "default-timeout", "retries")


def wheels_part(name: str) -> Part:
    """The layer with the packages of deploy/locks/<name>.txt."""
    root = root_part(PYTHON)
    return Part(
        name=f"wheels-{name}",
        path=cache_root() / "wheels" / name,
        key=key_of("wheels 1", root.key, lock_file(name)),
        build=lambda path: build(name, path),
        needs=("python-root",),
    )


def lock_file(name: str) -> Path:
    """The hash-locked list of one image."""
    return REPO / "deploy/locks" / f"{name}.txt"


def build(name: str, path: Path) -> None:
    """Install into <path>/opt, which lies over the root's /opt while pip runs."""
    part = f"wheels-{name}"
    root = root_part(PYTHON).path
    pip_cache = cache_root() / "pip"
    for folder in (path / "opt", pip_cache):
        folder.mkdir(exist_ok=True)
    work = path / "opt" / "lock.txt"
    work.write_bytes(lock_file(name).read_bytes())
    binds = {"/opt": path / "opt", "/dev": Path("/dev"), "/mnt": pip_cache, **chroot.network_binds(root)}
    env = {**pip_settings(), "PIP_CACHE_DIR": "/mnt", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    progress.say(part, f"installing {lock_file(name).name} with the root's own pip")
    for command in commands("/opt/lock.txt"):
        chroot.run_inside(part, root, command, binds=binds, env=env, deadline=900, registry=PYPI)
    work.unlink()


def commands(lock: str) -> list[list[str]]:
    """What runs inside the root. Compiled files name no time, so they stay valid in the image."""
    python = f"{VENV}/bin/python"
    pip = ["/usr/bin/python3", "-m", "pip", "--python", python, "install", "--no-compile", "--require-hashes"]
    compile_all = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", f"{VENV}/lib"]
    return [
        ["/usr/bin/python3", "-m", "venv", "--without-pip", VENV],
        [*pip, "--only-binary=:all:", "-r", lock],
        compile_all,
    ]


def pip_settings() -> dict[str, str]:
    """The host's choice of index as environment variables; paths of the host mean nothing inside the root."""
    names = {f"PIP_{name.upper().replace('-', '_')}": name for name in _PIP_NAMES}
    settings = {variable: os.environ[variable] for variable in names if variable in os.environ}
    for line in host_pip_config().splitlines():
        found = re.fullmatch(r"(?:global|install)\.([\w-]+)='(.*)'", line.strip())
        if found and found[1] in _PIP_NAMES:
            settings.setdefault(f"PIP_{found[1].upper().replace('-', '_')}", found[2])
    return settings


def host_pip_config() -> str:
    """What `pip config list` says on the host, empty without pip."""
    try:
        return process.output([sys.executable, "-m", "pip", "config", "list"])
    except SetupError:
        return ""
