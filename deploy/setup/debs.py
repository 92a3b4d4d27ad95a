"""The part `debs`: Debian packages that would start a service are only unpacked, never installed."""

from __future__ import annotations

from pathlib import Path

from deploy.setup import process, progress
from deploy.setup.cache import Part, cache_root, key_of
from deploy.setup.errors import SetupError
from deploy.setup.host import apt, apt_update

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "prometheus", "prometheus-alertmanager")


def debs_part() -> Part:
    """containerd, runc, the CNI plugins, Prometheus and Alertmanager, unpacked under <cache>/debs/root."""
    return Part(
        name="debs",
        path=cache_root() / "debs",
        key=key_of("debs 1", *PACKAGES),
        build=build,
        needs=("apt",),
    )


def build(path: Path) -> None:
    """Download and unpack; packages that are already downloaded are not fetched again."""
    archives = path / "archives"
    archives.mkdir()
    apt_update("debs")
    progress.say("debs", f"downloading {' '.join(PACKAGES)}")
    apt("debs", ["download", *PACKAGES], cwd=archives)
    found = sorted(archives.glob("*.deb"))
    if len(found) < len(PACKAGES):
        raise SetupError(f"debs: apt-get download brought {len(found)} of {len(PACKAGES)} packages")
    for archive in found:
        process.run("debs", ["dpkg", "-x", str(archive), str(path / "root")], deadline=120)
        archive.unlink()
    archives.rmdir()
