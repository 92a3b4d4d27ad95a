"""Runs inside a lab's namespaces: builds the file trees its processes see. Nothing here reaches the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.lab import cgroups, imagestore
from deploy.lab.layout import Layout
from deploy.lab.spec import CONTROL_PLANE, SYSCTLS, NodeSpec

SLURM_ROOT = Path("/run/slurm-root")
"""Slurm's root, inside the lab."""
SHARED = Path("/shared")
_STASH = Path("kept")

_PRIVATE = ("proc", "sys", "dev", "run", "tmp", "var", "etc", "usr", "mnt", "media", "lost+found")
_NEW_ROOT = cgroups.MOUNT
"""The new root is put together here: a folder that every machine has, and that no bind of ours contains."""


def mount(*arguments: str | Path) -> None:
    """Run the mount command."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def bind(source: Path, target: Path) -> None:
    """Show `source`, with what is mounted in it, at `target`."""
    mount("--rbind", source, target)


def enter_lab_root(layout: Layout) -> None:
    """Give the lab a root of its own: the host's programs, private /etc, /var, /run, /tmp, /proc and /sys."""
    trees = cgroups.hierarchies()
    new = _NEW_ROOT
    mount("-t", "tmpfs", "-o", "mode=755", "lab", new)
    _mirror_top(new)
    for name in (
        "run/lock",
        "run/netns",
        "run/home",
        "tmp",
        "var/lib",
        "var/log",
        "var/tmp",
        "shared",
        ".old",
    ):
        (new / name).mkdir(parents=True)
    (new / "tmp").chmod(0o1777)
    for name in ("proc", "sys", "dev"):
        (new / name).mkdir()
    mount("-t", "proc", "proc", new / "proc")
    mount("-t", "sysfs", "sysfs", new / "sys")
    mount("--rbind", "/dev", new / "dev")
    mount("-t", "tmpfs", "-o", "mode=1777", "shm", new / "dev/shm")
    _overlay([Path("/etc")], new / "etc", new / "run/etc")
    _overlay([layout.debian / "usr", Path("/usr")], new / "usr", new / "run/usr")
    _stash(new, layout.kept())
    _unhide(new, layout.kept(), set(_PRIVATE) - {"usr"})
    subprocess.run(["pivot_root", new, new / ".old"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "-l", "/.old"], check=True)
    Path("/.old").rmdir()
    cgroups.mount_all(trees)
    bind(layout.shared, SHARED)
    _name_hosts()


def _mirror_top(new: Path) -> None:
    """Bind each ordinary top-level folder of the host, and copy its top-level links."""
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            (new / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_dir() and entry.name not in _PRIVATE:
            (new / entry.name).mkdir()
            mount("--rbind", entry, new / entry.name)


def _overlay(lowers: Sequence[Path], target: Path, scratch: Path) -> None:
    """A private, writable view of folders laid over each other; what is written goes to `scratch` (tmpfs)."""
    for folder in (target, scratch / "upper", scratch / "work"):
        folder.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lowers))},upperdir={scratch}/upper,workdir={scratch}/work"
    mount("-t", "overlay", "-o", options, "overlay", target)


def _stash(new: Path, kept: Sequence[Path]) -> None:
    """Bind the kept folders at a place that nothing hides."""
    for index, path in enumerate(kept):
        (new / _STASH / str(index)).mkdir(parents=True)
        bind(path, new / _STASH / str(index))


def _unhide(root: Path, kept: Sequence[Path], tops: Iterable[str]) -> None:
    """Show those of the kept folders again that lie in one of these top-level folders."""
    for index, path in enumerate(kept):
        if path.parts[1] in tops:
            target = root / path.relative_to("/")
            target.mkdir(parents=True, exist_ok=True)
            bind(root / _STASH / str(index), target)


def _name_hosts() -> None:
    _replace(Path("/etc/hosts"), f"127.0.0.1 localhost\n{CONTROL_PLANE} lab\n")
    _replace(Path("/etc/resolv.conf"), "search svc.cluster.local cluster.local\nnameserver 10.98.0.10\n")
    _replace(Path("/etc/machine-id"), "0" * 32 + "\n")
    Path("/etc/cni/net.d").mkdir(parents=True, exist_ok=True)


def _replace(path: Path, text: str) -> None:
    """Write a file anew: the old one may be a link into a folder that is not there."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def mount_slurm_root(layout: Layout) -> None:
    """Slurm's own root: a private writable view of the built one, with this lab's configuration and logs."""
    _overlay([layout.slurm_root], SLURM_ROOT, SLURM_ROOT.with_name("slurm-overlay"))
    mount("-t", "proc", "proc", SLURM_ROOT / "proc")
    mount("--rbind", "/dev", SLURM_ROOT / "dev")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", SLURM_ROOT / "run")
    shutil.copy("/etc/hosts", SLURM_ROOT / "etc/hosts")
    for source, place in (
        (layout.slurm_etc, "etc/slurm"),
        (layout.logs / "slurm", "var/log/slurm"),
        (SHARED, "shared"),
    ):
        (SLURM_ROOT / place).mkdir(parents=True, exist_ok=True)
        bind(source, SLURM_ROOT / place)


def enter_node_root(layout: Layout, node: NodeSpec) -> None:
    """Give a node its own /var (its disk), /run, /tmp and /sys, its names, and its faces at /var/lib/lab."""
    trees, kept = cgroups.hierarchies(), layout.kept()  # links are followed: before anything is hidden
    mount("-t", "sysfs", "sysfs", "/sys")
    cgroups.mount_all(trees)
    disk = layout.disk(node.name)
    imagestore.bind_layers(layout.store, disk / "var/lib/containerd")
    bind(layout.node_dir(node.name), disk / "var/lib/lab")
    bind(layout.pod_logs(node.name), disk / "var/log/pods")
    bind(disk / "cni", Path("/etc/cni/net.d"))
    bind(disk / "var", Path("/var"))
    # Only now: the cache, and with it the disk, may lie in one of these folders.
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp")
    _unhide(Path("/"), kept, ("run", "tmp", "var"))
    for name in ("lock", "home", "sysctl"):
        (Path("/run") / name).mkdir()
    _show("/etc/hosts", f"127.0.0.1 localhost\n{CONTROL_PLANE} lab\n{node.address} {node.name}\n")
    _show("/etc/machine-id", node.machine_id + "\n")
    for name, value in SYSCTLS.items():
        _show(f"/proc/sys/{name}", value + "\n")
    bind(layout.node_dir(node.name) / "boot_id", Path("/proc/sys/kernel/random/boot_id"))
    mount("--make-rshared", "/")


def _show(path: str, text: str) -> None:
    """Make `path` read as `text` for this node alone."""
    file = Path("/run/sysctl") / path.strip("/").replace("/", "_")
    file.write_text(text)
    bind(file, Path(path))
