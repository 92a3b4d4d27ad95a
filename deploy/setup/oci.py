"""Writes container images without a container engine: layers from folders, an OCI archive from layers.

A layer is one uncompressed tar (so its digest is also its diff id), kept by content in a blob folder.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

CODE_TIME = (
    1_700_000_000  # modification time of every file in a layer of code, so that equal code is an equal layer
)
PATH_ENV = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True)
class Layer:
    """One layer tar: digest (`sha256:…`), size in bytes, and where the bytes are."""

    digest: str
    size: int
    path: Path


@dataclass(frozen=True)
class Image:
    """An image to write: its full name, layers bottom first, and what a container of it runs."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"


@dataclass(frozen=True)
class Tree:
    """A folder of the host, where its content lies in the image, and patterns of paths to leave out."""

    source: Path
    target: str = ""
    exclude: Sequence[str] = ()


def layer_from_trees(trees: Iterable[Tree], blobs: Path, mtime: int | None = None) -> Layer:
    """Tar the trees into one layer, sorted. With `mtime` (seconds) every path gets that time and root as
    owner, so that equal code is an equal layer on every machine; without it both are as on disk.
    """
    blobs.mkdir(parents=True, exist_ok=True)
    work = blobs / f"layer.tmp-{os.getpid()}"
    with work.open("wb") as out, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        made: set[str] = set()
        for tree in trees:
            _add_parents(tar, tree.target, made)
            for path, name in _walk(tree):
                _add(tar, path, name, mtime)
    with work.open("rb") as data:
        digest = f"sha256:{hashlib.file_digest(data, 'sha256').hexdigest()}"
    path = blobs / digest.removeprefix("sha256:")
    work.rename(path)
    return Layer(digest, path.stat().st_size, path)


def _walk(tree: Tree) -> Iterator[tuple[Path, str]]:
    """Every path of the tree with its name in the image, parents first, in byte order."""
    if not tree.source.is_dir():
        yield tree.source, tree.target
        return
    if tree.target:
        yield tree.source, tree.target
    for folder, subfolders, files in os.walk(tree.source):
        inside = os.path.relpath(folder, tree.source)
        here = "" if inside == "." else f"{inside}/"
        kept = [name for name in (*subfolders, *files) if not _excluded(here + name, tree.exclude)]
        subfolders[:] = sorted(set(subfolders).intersection(kept))
        for name in sorted(kept):
            yield Path(folder, name), os.path.join(tree.target, here + name)


def _excluded(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _add_parents(tar: tarfile.TarFile, target: str, made: set[str]) -> None:
    """Folders above a target, readable by every user: left out, they get whatever mode the unpacker likes."""
    for parent in reversed(Path(target).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))
            info = tarfile.TarInfo(str(parent))
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, CODE_TIME
            tar.addfile(info)


def _add(tar: tarfile.TarFile, path: Path, name: str, mtime: int | None) -> None:
    """Add one path; a socket has no place in an image."""
    if stat.S_ISSOCK(path.lstat().st_mode):
        return
    info = tar.gettarinfo(path, arcname=name)
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    if mtime is not None:
        info.mtime, info.uid, info.gid = mtime, 0, 0
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    if info.isreg():
        with path.open("rb") as data:
            tar.addfile(info, data)
    else:
        tar.addfile(info)


def write_archive(images: Iterable[Image], out: IO[bytes], omit: Collection[str] = ()) -> None:
    """Write an OCI archive to a stream, without the layers whose digest is in `omit` (already there)."""
    written: set[str] = set(omit)
    entries: list[dict[str, object]] = []
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        _add_bytes(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for image in images:
            for layer in image.layers:
                if layer.digest not in written:
                    written.add(layer.digest)
                    _add_layer(tar, layer)
            config = _blob(tar, config_json(image), _CONFIG)
            manifest = _blob(tar, manifest_json(image, config), _MANIFEST)
            entries.append({**manifest, "annotations": {"io.containerd.image.name": image.name}})
        index = {"schemaVersion": 2, "manifests": entries}
        _add_bytes(tar, "index.json", json.dumps(index).encode())


def config_json(image: Image) -> bytes:
    """The image's configuration: what runs, and the layers by content."""
    env = [PATH_ENV, *(f"{name}={value}" for name, value in sorted(image.env.items()))]
    run = {"Env": env, "Entrypoint": list(image.entrypoint), "WorkingDir": image.workdir}
    layers = {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]}
    content = {"architecture": architecture(), "os": "linux", "config": run, "rootfs": layers}
    return json.dumps(content, sort_keys=True).encode()


def manifest_json(image: Image, config: Mapping[str, object]) -> bytes:
    """The manifest that names the configuration and the layers."""
    layers = [{"mediaType": _LAYER, "digest": layer.digest, "size": layer.size} for layer in image.layers]
    content = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": dict(config), "layers": layers}
    return json.dumps(content, sort_keys=True).encode()


def architecture() -> str:
    """This machine's architecture by its OCI name."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _blob(tar: tarfile.TarFile, data: bytes, media_type: str) -> dict[str, object]:
    """Add a small blob and return its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    _add_bytes(tar, f"blobs/sha256/{digest}", data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _add_layer(tar: tarfile.TarFile, layer: Layer) -> None:
    info = tarfile.TarInfo(f"blobs/sha256/{layer.digest.removeprefix('sha256:')}")
    info.size = layer.size
    with layer.path.open("rb") as data:
        tar.addfile(info, data)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
