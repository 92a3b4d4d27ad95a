"""One copy of every image a lab, shared by its nodes: layers are read-only binds, the rest is each node's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from deploy.setup.process import bound_to_parent

_SNAPSHOTS = Path("io.containerd.snapshotter.v1.overlayfs/snapshots")


def layers(store: Path) -> list[Path]:
    """The folders that hold the layers' files, relative to the store."""
    return sorted(folder.relative_to(store) for folder in store.glob(f"{_SNAPSHOTS}/*/fs"))


def copy_store(golden: Path, new: Path) -> None:
    """Hard links to all but the data bases. It ends with this process: a killed start leaves no writer."""
    subprocess.run(bound_to_parent(["cp", "-al", str(golden), str(new)]), check=True)
    for database in golden.rglob("*.db"):
        copy = new / database.relative_to(golden)
        copy.unlink()
        shutil.copy2(database, copy)


def skeleton(store: Path, new: Path) -> None:
    """A containerd root for one node without the layers' files, whose folders are left empty to bind them at.
    Contents are hard links, data bases real copies.
    """
    shutil.copytree(store, new, copy_function=_link_or_copy, ignore=_without_layers, symlinks=True)
    for layer in layers(store):
        (new / layer).mkdir(parents=True, exist_ok=True)
        (new / layer).with_name("work").mkdir(exist_ok=True)


def _without_layers(folder: str, names: list[str]) -> set[str]:
    return {"fs"} & set(names) if Path(folder).parent.name == _SNAPSHOTS.name else set()


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(".db"):
        return str(shutil.copy2(source, target))
    Path(target).hardlink_to(source)
    return target


def bind_layers(store: Path, node_store: Path) -> None:
    """Show every layer's files, read-only, in a node's containerd root; run in the node's mount namespace."""
    for layer in layers(store):
        subprocess.run(["mount", "--bind", "-o", "ro", store / layer, node_store / layer], check=True)
