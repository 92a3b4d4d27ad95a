"""The part `debs`: Debian packages that would start a service are only unpacked, never installed.

They come through the Python root's apt, so that every host runs the same versions, whatever its distribution.
"""

from __future__ import annotations

from pathlib import Path

from deploy.setup import chroot, process, progress
from deploy.setup.cache import Part, cache_root, key_of, remove_tree
from deploy.setup.errors import SetupError
from deploy.setup.host import APT, APT_OPTIONS
from deploy.setup.roots import PYTHON, root_part

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "prometheus", "prometheus-alertmanager")
_DOWNLOAD = """
apt-get "$@" update
cd /mnt
apt-get "$@" download {packages}
"""


def debs_part() -> Part:
    """containerd, runc, the CNI plugins, Prometheus and Alertmanager, unpacked under <cache>/debs/root."""
    return Part(
        name="debs",
        path=cache_root() / "debs",
        key=key_of("debs 2", *PACKAGES, *PYTHON.suites),
        build=build,
        needs=("python-root",),
    )


def build(path: Path) -> None:
    """Download inside the root, unpack outside."""
    archives = path / "archives"
    archives.mkdir()
    progress.say("debs", f"downloading {' '.join(PACKAGES)}")
    download(archives)
    found = sorted(archives.glob("*.deb"))
    if len(found) < len(PACKAGES):
        raise SetupError(f"debs: apt-get download brought {len(found)} of {len(PACKAGES)} packages")
    for archive in found:
        process.run("debs", ["dpkg", "-x", str(archive), str(path / "root")], deadline=120)
    remove_tree(archives)


def download(archives: Path) -> None:
    """Put the packages' files into `archives`; the root, an image layer, keeps no package lists."""
    root = root_part(PYTHON).path
    lists, cached = archives / "lists", archives / "cache"
    for folder in (lists, cached):
        folder.mkdir()
    binds = {
        "/mnt": archives,
        "/var/lib/apt/lists": lists,
        "/var/cache/apt": cached,
        "/dev": Path("/dev"),
        **chroot.network_binds(root),
    }
    script = _DOWNLOAD.format(packages=" ".join(PACKAGES))
    command = ["/bin/sh", "-ec", script, "sh", *APT_OPTIONS]
    chroot.run_inside("debs", root, command, binds=binds, env={}, deadline=900, registry=APT)
