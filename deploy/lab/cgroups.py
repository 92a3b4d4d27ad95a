"""The lab's control groups: version 1 (a tree per controller), version 2 (one tree) or both side by side."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.errors import LabError

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "remediator-lab-"
_LEAF = "init"
_V2_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")


@dataclass(frozen=True)
class Hierarchy:
    """One mounted control-group tree: where, and the mount options that give the same tree again."""

    mount: Path
    options: str
    unified: bool

    @property
    def place(self) -> Path:
        """Its path below /sys/fs/cgroup."""
        return self.mount.relative_to(MOUNT)


def parse_mountinfo(text: str) -> tuple[Hierarchy, ...]:
    """The hierarchies in a /proc/PID/mountinfo, in its order."""
    found: dict[Path, Hierarchy] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, superblock = after.split(" ")[:3]
        mount = Path(before.split(" ")[4])
        if kind in {"cgroup", "cgroup2"} and mount.is_relative_to(MOUNT):
            found[mount] = Hierarchy(mount, _remount_options(superblock), kind == "cgroup2")
    return tuple(found.values())


def _remount_options(superblock: str) -> str:
    """Of a version 1 tree's options, those that name it: its controllers or its name."""
    dropped = ("rw", "ro", "xattr", "clone_children", "noprefix", "nsdelegate", "cpuset_v2_mode")
    options = [
        o
        for o in superblock.split(",")
        if o not in dropped and not o.startswith(("release_agent=", "memory_"))
    ]
    named = any(option.startswith("name=") for option in options)
    return ",".join(["none", *options] if named else options)


def hierarchies() -> tuple[Hierarchy, ...]:
    """The machine's hierarchies; LabError when control groups are not mounted."""
    found = parse_mountinfo(Path("/proc/self/mountinfo").read_text())
    if not found:
        raise LabError(f"no control groups are mounted at {MOUNT}: the lab cannot run here")
    return found


def mount_all(trees: tuple[Hierarchy, ...]) -> None:
    """Mount the present namespace's view of the trees at /sys/fs/cgroup, where a new sysfs has none."""
    if _is_pure(trees):
        _mount("-t", "cgroup2", "cgroup2", str(MOUNT))
        return
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(MOUNT))
    for tree in trees:
        tree.mount.mkdir(parents=True)
        if tree.unified:
            _mount("-t", "cgroup2", "cgroup2", str(tree.mount))
            continue
        _mount("-t", "cgroup", "-o", tree.options, "cgroup", str(tree.mount))
        for controller in tree.options.split(",") if "," in tree.place.name else ():
            (MOUNT / controller).symlink_to(tree.place)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _is_pure(trees: tuple[Hierarchy, ...]) -> bool:
    return len(trees) == 1 and trees[0].unified


class Group:
    """One group with the same name in every hierarchy: a lab, or a node inside a lab."""

    def __init__(self, name: str, trees: tuple[Hierarchy, ...] | None = None) -> None:
        """`name` is a path below the trees' tops, as in remediator-lab-x/gpu-0."""
        self.name = name
        self.trees = hierarchies() if trees is None else trees

    @classmethod
    def of_lab(cls, lab: str) -> Group:
        """The group of a whole lab."""
        return cls(PREFIX + lab)

    def child(self, name: str) -> Group:
        """A group inside this one."""
        return Group(f"{self.name}/{name}", self.trees)

    @property
    def version(self) -> int:
        """2 when the machine has the single tree only, else 1."""
        return 2 if _is_pure(self.trees) else 1

    @property
    def folders(self) -> list[Path]:
        """The group's folder in each hierarchy."""
        return [tree.mount / self.name for tree in self.trees]

    @property
    def member_files(self) -> list[Path]:
        """The files a process id is written to, to join everywhere."""
        return [folder / "cgroup.procs" for folder in self.folders]

    def create(self) -> None:
        """Make the group in every hierarchy; there already is fine."""
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if self.version == 1 and (folder / name).exists():
                    (folder / name).write_text((folder.parent / name).read_text())

    def delegate(self) -> None:
        """Version 2: only leaves hold processes, so move ours to a leaf and hand the controllers down."""
        if self.version == 1:
            return
        (folder,) = self.folders
        leaf = folder / _LEAF
        leaf.mkdir(exist_ok=True)
        for pid in _read_pids(folder / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(str(pid))
        _hand_down(folder)

    def open_parent(self) -> None:
        """Version 2: make the controllers usable below this group's parent."""
        if self.version == 2:
            _hand_down(self.folders[0].parent)

    def processes(self) -> set[int]:
        """Every process in the group and below it, by the caller's numbering."""
        found: set[int] = set()
        for folder in self.folders:
            for file in folder.rglob("cgroup.procs") if folder.is_dir() else ():
                found.update(_read_pids(file))
        return found

    def set_frozen(self, frozen: bool) -> None:
        """Freeze or thaw every process of the group."""
        for file, text in self._freezers(frozen):
            file.write_text(text)

    def thaw_all(self) -> None:
        """Thaw the group and everything below it: a frozen process of version 1 cannot be killed."""
        for folder in self.folders:
            for name, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                for file in sorted(folder.rglob(name)) if folder.is_dir() else ():
                    with contextlib.suppress(OSError):
                        file.write_text(text)

    def _freezers(self, frozen: bool) -> Iterator[tuple[Path, str]]:
        for folder in self.folders:
            if (folder / "freezer.state").exists():
                yield folder / "freezer.state", "FROZEN" if frozen else "THAWED"
            elif self.version == 2:
                yield folder / "cgroup.freeze", "1" if frozen else "0"

    def kill(self, deadline: float = 15.0) -> None:
        """Kill every process of the group; LabError when some are left after `deadline` seconds."""
        self.thaw_all()
        end = time.monotonic() + deadline
        while pids := self.processes() - {0, os.getpid()}:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:
                raise LabError(
                    f"processes {sorted(pids)[:8]} of {self.name} cannot be killed: run `down` again"
                )
            time.sleep(0.02)

    def remove(self, deadline: float = 5.0) -> None:
        """Remove the (empty) group and everything below it; a zombie may hold it for a moment."""
        end = time.monotonic() + deadline
        while left := [f for f in self._all_folders() if not _removed(f)]:
            if time.monotonic() > end:
                raise LabError(f"control group {left[0]} is still in use: run `down` again")
            time.sleep(0.02)

    def _all_folders(self) -> list[Path]:
        """Deepest first."""
        found = [Path(entry) for top in self.folders for entry, _, _ in os.walk(top)]
        return sorted(found, key=lambda folder: -len(folder.parts))


def _hand_down(folder: Path) -> None:
    """Enable every controller that is not yet usable below `folder`."""
    control = folder / "cgroup.subtree_control"
    offered = set((folder / "cgroup.controllers").read_text().split())
    missing = (offered & set(_V2_CONTROLLERS)) - set(control.read_text().split())
    if missing:
        control.write_text(" ".join(f"+{name}" for name in sorted(missing)))


def _read_pids(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text().split()]
    except OSError:
        return []


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
