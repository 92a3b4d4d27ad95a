"""Runs a command inside a root, with binds that end with the command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.setup import process

# "ROOT SOURCE TARGET SOURCE TARGET ... -- COMMAND": the caller's mount namespace is already private
_SCRIPT = """
root=$1; shift
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot "$root" "$@"
"""
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def run_inside(
    part: str,
    root: Path,
    command: Sequence[str],
    *,
    binds: Mapping[str, Path],
    env: Mapping[str, str],
    deadline: float,
    registry: str | None = None,
) -> None:
    """Run a command in `root` with the host's network; `binds` maps paths inside to paths outside."""
    pairs = [word for inside, outside in binds.items() for word in (str(outside), inside)]
    argv = [
        "unshare", "-m", "--propagation", "private", "-p", "-f", "--kill-child=KILL",
        "sh", "-ec", _SCRIPT, "sh", str(root), *pairs, "--", *command,
    ]  # fmt: skip
    inside_env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        **_proxies(),
        **env,
    }
    process.run(part, argv, deadline=deadline, registry=registry, env=inside_env)


def _proxies() -> dict[str, str]:
    return {name: os.environ[name] for name in _PROXIES if name in os.environ}


def network_binds(root: Path) -> dict[str, Path]:
    """The host's resolver and certificates, where the root has a file to bind them over."""
    bundle = (
        os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    )
    wanted = {
        "/etc/resolv.conf": Path("/etc/resolv.conf"),
        "/etc/hosts": Path("/etc/hosts"),
        "/etc/ssl/certs/ca-certificates.crt": Path(bundle),
    }
    return {
        inside: outside.resolve() for inside, outside in wanted.items()
        if outside.exists() and (root / inside.lstrip("/")).is_file()
    }  # fmt: skip
