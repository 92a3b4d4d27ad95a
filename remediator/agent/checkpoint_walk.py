"""The matches of a glob on the file system: only looked at, never followed out of it, never without end."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from remediator.agent.checkpoint_files import Seen, points_at
from remediator.agent.checkpoint_glob import Glob, merged
from remediator.errors import GiveUp
from remediator.model.checkpoint import JobKey

MOST_ENTRIES = 20_000
MOST_S = 10.0
NEWEST = 8
"""Checkpoints of a job that are looked into; older ones are of no interest."""
DEEPEST = 4
_POINTER_BYTES = 256
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Budget:
    """Entries and seconds that one look may cost; GiveUp when they are used up."""

    def __init__(
        self, steady: Callable[[], float], entries: int = MOST_ENTRIES, seconds: float = MOST_S
    ) -> None:
        self._steady, self._left, self._until = steady, entries, steady() + seconds

    def spend(self) -> None:
        """One more entry is looked at."""
        self._left -= 1
        if self._left < 0 or self._steady() > self._until:
            raise GiveUp("too much to look at: name the folders closer, or remove old checkpoints")


class Found:
    """A checkpoint: its name, its files, and whether the pointer beside it names an older one."""

    __slots__ = ("ahead", "files", "name", "path")

    def __init__(self, path: str, name: str, files: list[Seen], *, ahead: bool) -> None:
        self.path, self.name, self.files, self.ahead = path, name, files, ahead


def walk(glob: Glob, pointer: str, budget: Budget) -> dict[JobKey, list[Found]]:
    """The newest checkpoints of each job. GiveUp when the root cannot be read, or the budget ends."""
    found: dict[JobKey, list[Found]] = defaultdict(list)
    try:
        root = os.open(glob.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise GiveUp(f"{glob.root}: {error.strerror}") from None
    with _closing(root):
        for folder, path, matches in _folders(root, str(glob.root), JobKey(), glob, 0, budget):
            for key, entries in _by_key(matches):
                found[key] += _newest(folder, path, entries, pointer, budget)
    return found


Match = tuple[JobKey, os.DirEntry[str]]


def _folders(
    folder: int, path: str, key: JobKey, glob: Glob, depth: int, budget: Budget
) -> Iterator[tuple[int, str, list[Match]]]:
    """Every folder that holds matches of the last component, open, with them."""
    matches = []
    for entry in _entries(folder, budget):
        match = glob.parts[depth].fullmatch(entry.name)
        of = merged(key, match) if match else None
        if of is not None and (not entry.name.startswith(".") or glob.parts[depth].pattern.startswith(r"\.")):
            matches.append((of, entry))
    if depth == len(glob.parts) - 1:
        yield folder, path, matches
        return
    for of, entry in matches:
        with _opened(folder, entry.name) as below:
            if below is not None:
                yield from _folders(below, f"{path}/{entry.name}", of, glob, depth + 1, budget)


def _by_key(matches: list[Match]) -> list[tuple[JobKey, list[os.DirEntry[str]]]]:
    grouped: dict[JobKey, list[os.DirEntry[str]]] = defaultdict(list)
    for key, entry in matches:
        grouped[key].append(entry)
    return list(grouped.items())


def _newest(
    folder: int, path: str, entries: list[os.DirEntry[str]], pointer: str, budget: Budget
) -> list[Found]:
    """The files of the newest few, oldest first; what vanishes meanwhile is left out."""
    dated = sorted(
        (entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in entries if _is_own(entry)
    )
    names = [name for _, name in dated[-NEWEST:]]
    told = _read(folder, pointer) if pointer else None
    found = []
    for name in names:
        files = _files_of(folder, name, budget)
        if files is not None:
            found.append(Found(f"{path}/{name}", name, files, ahead=False))
    found.sort(key=lambda one: max((file.written for file in one.files), default=0.0))
    at = next((at for at, one in enumerate(found) if told and points_at(told, one.name)), -1)
    for one in found[at + 1 :] if pointer else ():
        one.ahead = True
    return found


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _files_of(folder: int, name: str, budget: Budget) -> list[Seen] | None:
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(seen.st_mode):
        return [Seen(name, seen.st_size, seen.st_mtime)]
    with _opened(folder, name) as below:
        return None if below is None else list(_inside(below, "", 0, budget))


def _inside(folder: int, prefix: str, depth: int, budget: Budget) -> Iterator[Seen]:
    for entry in _entries(folder, budget):
        try:
            seen = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode):
            yield Seen(prefix + entry.name, seen.st_size, seen.st_mtime)
        elif stat.S_ISDIR(seen.st_mode) and depth < DEEPEST:
            with _opened(folder, entry.name) as below:
                if below is not None:
                    yield from _inside(below, f"{prefix}{entry.name}/", depth + 1, budget)


def _entries(folder: int, budget: Budget) -> list[os.DirEntry[str]]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            budget.spend()
            found.append(entry)
    return found


def _read(folder: int, name: str) -> str:
    """The text of a pointer, or what a symbolic link points at; empty when there is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        pass
    try:
        handle = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return ""
    with _closing(handle):
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, _POINTER_BYTES).decode(errors="replace")


@contextmanager
def _opened(folder: int, name: str) -> Iterator[int | None]:
    """A folder below, open; None when it is none, or not to be read."""
    try:
        handle = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        yield None
        return
    with _closing(handle):
        yield handle


@contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
