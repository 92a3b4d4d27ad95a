"""Where built parts live, and how one is built: by one builder at a time, in a folder renamed when whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deploy.setup import progress
from deploy.setup.errors import SetupError

MARKER = ".built-from"
REPO = Path(__file__).resolve().parents[2]


def cache_root() -> Path:
    """The folder that holds everything built: $REMEDIATOR_CACHE or ~/.cache/remediator."""
    named = os.environ.get("REMEDIATOR_CACHE")
    root = Path(named) if named else Path.home() / ".cache" / "remediator"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        mend = "run this as root, or set REMEDIATOR_CACHE"
        raise SetupError(f"{root} cannot be made ({error.strerror}): {mend}") from None
    return root.resolve()


@dataclass(frozen=True)
class Part:
    """One thing to build: its folder, the hash of its inputs, its builder, the parts it needs."""

    name: str
    path: Path
    key: str
    build: Callable[[Path], None]
    needs: tuple[str, ...] = ()
    in_place: bool = False
    current: Callable[[], bool] | None = field(default=None, compare=False)


def key_of(*inputs: str | Path) -> str:
    """Hash of strings and of files' names and contents; a folder counts with every file in it."""
    digest = hashlib.sha256()
    for item in inputs:
        if isinstance(item, Path):
            for file in _files(item):
                _feed(digest.update, str(file.relative_to(REPO) if file.is_relative_to(REPO) else file.name))
                _feed(digest.update, hashlib.sha256(file.read_bytes()).hexdigest())
        else:
            _feed(digest.update, item)
    return digest.hexdigest()


def _feed(update: Callable[[bytes], None], text: str) -> None:
    """Add one item with its length, so that two items never run into one."""
    data = text.encode()
    update(f"{len(data)}:".encode() + data)


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    return sorted(f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def is_current(part: Part) -> bool:
    """True when the part is there and was built from the present inputs."""
    if part.current is not None:
        return part.current()
    try:
        return bool(json.loads((part.path / MARKER).read_text())["key"] == part.key)
    except (OSError, ValueError, KeyError):
        return False


def ensure_part(part: Part) -> bool:
    """Build the part unless it is current (waits for another builder of it); True when it was built now."""
    if is_current(part):
        return False
    with build_lock(part.name):
        if is_current(part):
            return False
        started = progress.elapsed()
        if part.in_place:
            _build_in_place(part)
        else:
            _build_and_swap(part)
        progress.say(part.name, f"ready after {progress.elapsed() - started:.0f} s")
    return True


@contextlib.contextmanager
def build_lock(name: str) -> Iterator[None]:
    """Hold the machine-wide lock of one part; it ends with the process, also with a killed one."""
    folder = cache_root() / "locks"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(name, "another setup is building this part; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build_in_place(part: Part) -> None:
    """For folders that cannot be renamed: without its marker a half-built one counts as not built."""
    (part.path / MARKER).unlink(missing_ok=True)
    part.build(part.path)
    if part.current is None:
        _mark(part.path, part.key)


def _build_and_swap(part: Part) -> None:
    sweep(part.path)
    work = part.path.with_name(f"{part.path.name}.tmp-{os.getpid()}")
    work.mkdir(parents=True)
    try:
        part.build(work)
        _mark(work, part.key)
        swap(work, part.path)
    finally:
        remove_tree(work)


def _mark(path: Path, key: str) -> None:
    (path / MARKER).write_text(json.dumps({"key": key}) + "\n")


def swap(new: Path, path: Path) -> None:
    """Put a finished folder in the place of an old one; whoever holds files of the old one keeps them."""
    old = path.with_name(f"{path.name}.old-{os.getpid()}")
    if path.exists():
        path.rename(old)
    new.rename(path)
    remove_tree(old)


def sweep(path: Path) -> None:
    """Remove what killed builds of this folder left beside it (the caller holds the build lock)."""
    for left in path.parent.glob(f"{path.name}.tmp-*"):
        remove_tree(left)
    for left in path.parent.glob(f"{path.name}.old-*"):
        remove_tree(left)


def remove_tree(path: Path) -> None:
    """Delete a folder, but never through a mount: that could be the machine's own /dev."""
    if not path.exists():
        return
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    inside = [m for m in mounts if m.startswith(f"{path}/")]
    if inside:
        raise SetupError(f"{inside[0]} is still mounted: umount it, then run this again")
    shutil.rmtree(path)
