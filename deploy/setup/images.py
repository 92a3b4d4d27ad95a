"""The lab's images, made of roots and layers, in a store from which every node gets a hard-linked copy.

`images` holds all that changes seldom (roots, locked packages, Go programs); `golden/<hash>` adds the code
of the present working tree, which takes about a second.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy.setup import gobin, oci, progress, pyslurm, roots, store, wheels
from deploy.setup.cache import MARKER, REPO, Part, cache_root, key_of, remove_tree
from deploy.setup.debs import debs_part

KEEP_GOLDEN = 3
PROGRAMS = ("pause", "coredns", "deviceplugin")
RECIPES = REPO / "deploy/images"
APP = "opt/app"
PYTHON_ENV = (("PYTHONPATH", f"/{APP}"), ("PYTHONUNBUFFERED", "1"))
_UNUSED = (
    MARKER, "proc/*", "sys/*", "dev/*", "run/*", "tmp/*", "var/cache/*", "var/log/*", "var/lib/apt/*",
    "var/lib/dpkg/info/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/info/*", "usr/share/locale/*",
    "usr/share/lintian/*",
)  # fmt: skip
_COMPILER = ("usr/lib/gcc/*", "usr/libexec/gcc/*", "usr/include/*", "*.a")
_NOT_CODE = ("__pycache__", "*/__pycache__", "*.pyc")


@dataclass(frozen=True)
class Base:
    """A layer that changes seldom: its name, its content, and the parts whose change makes a new one."""

    name: str
    trees: Callable[[], Iterable[oci.Tree]]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Code:
    """An image of this repository's code on top of base layers: `paths` of the repository are copied below
    APP, the file `program` into the search path; the container runs `entrypoint`.
    """

    name: str
    bases: tuple[str, ...]
    paths: tuple[str, ...]
    entrypoint: tuple[str, ...]
    program: str | None = None
    env: tuple[tuple[str, str], ...] = ()


def _binary(name: str) -> Callable[[], list[oci.Tree]]:
    return lambda: [oci.Tree(gobin.gobin_part().path / name, f"usr/local/bin/{name}")]


def _root(recipe: roots.Recipe, *exclude: str) -> Callable[[], list[oci.Tree]]:
    return lambda: [oci.Tree(roots.root_part(recipe).path, "", (*_UNUSED, *exclude))]


def _wheels(name: str) -> Callable[[], list[oci.Tree]]:
    return lambda: [oci.Tree(wheels.wheels_part(name).path, "", (MARKER,))]


def _pyslurm() -> list[oci.Tree]:
    return [oci.Tree(pyslurm.pyslurm_part().path / "opt/pyslurm", "opt/pyslurm")]


def bases() -> dict[str, Base]:
    """Every base layer by name."""
    go, python = gobin.gobin_part(), roots.root_part(roots.PYTHON)
    found = [
        *(Base(name, _binary(name), (go,)) for name in PROGRAMS),
        Base("slurm", _root(roots.SLURM, *_COMPILER), (roots.root_part(roots.SLURM),)),
        Base("python", _root(roots.PYTHON), (python,)),
        Base("pyslurm", _pyslurm, (pyslurm.pyslurm_part(),)),
        *(Base(f"wheels-{n}", _wheels(n), (wheels.wheels_part(n),)) for n in ("service", "agent")),
    ]
    return {base.name: base for base in found}


_AGENT_CODE = (
    "remediator/__init__.py", "remediator/clock.py", "remediator/errors.py", "remediator/guard.py",
    "remediator/model", "remediator/observe", "remediator/agent",
)  # fmt: skip
_PYTHON = f"{wheels.VENV}/bin/python"
CODES = (
    Code(
        "remediator",
        bases=("python", "wheels-service"),
        paths=("remediator", "slurm_bridge", "policies"),
        program="deploy/images/remediator/remediator",
        entrypoint=("/usr/local/bin/remediator",),
        env=PYTHON_ENV,
    ),
    Code(
        "agent",
        bases=("python", "wheels-agent"),
        paths=_AGENT_CODE,
        entrypoint=(_PYTHON, "-m", "remediator.agent"),
        env=PYTHON_ENV,
    ),
    Code(
        "slinky",
        bases=("python", "wheels-service"),
        paths=("deploy/__init__.py", "deploy/lab/__init__.py", "deploy/lab/slinky"),
        entrypoint=(_PYTHON, "-m", "deploy.lab.slinky"),
        env=PYTHON_ENV,
    ),
    Code(
        "slurmd",
        bases=("slurm",),
        paths=(),
        program="deploy/images/slurmd/slurmd-entrypoint",
        entrypoint=("/usr/local/bin/slurmd-entrypoint",),
    ),
    Code(  # as deploy/images/pyslurm/Dockerfile makes it of a site's Slurm image
        "pyslurm",
        bases=("slurm", "pyslurm"),
        paths=("slurm_bridge/pyslurm/worker.py",),
        entrypoint=(pyslurm.PYTHON, f"/{APP}/slurm_bridge/pyslurm/worker.py"),
    ),
)


def images_part() -> Part:
    """The store with every base layer imported and unpacked."""
    key = key_of("images 1", *(f"{base.name} {part.key}" for base in bases().values() for part in base.parts))
    return Part(
        name="images",
        path=cache_root() / "images",
        key=key,
        build=_build_images,
        needs=("gobin", "debs", "slurm-root", "python-root", "pyslurm", "wheels-service", "wheels-agent"),
    )


def _build_images(path: Path) -> None:
    progress.say("images", "writing and unpacking the base layers (about 1 min)")
    layers = {name: base_layer(base) for name, base in bases().items()}
    images = [
        *(oci.Image(f"localhost/{n}:1", (layers[n],), (f"/usr/local/bin/{n}",)) for n in PROGRAMS),
        *(oci.Image(f"localhost/{code.name}-base:1", tuple(layers[b] for b in code.bases)) for code in CODES),
    ]  # fmt: skip
    store.import_images(path, programs(), images)
    _drop_old_blobs({layer.path for layer in layers.values()})


def programs() -> Path:
    """The folder with containerd, ctr and runc."""
    return debs_part().path / "root/usr/bin"


def blobs() -> Path:
    """The folder of layer tars, each named by its content."""
    return cache_root() / "blobs"


def base_layer(base: Base) -> oci.Layer:
    """The layer's tar, written once for each state of the parts it is made from."""
    note = blobs() / f"{key_of('layer 1', base.name, *(part.key for part in base.parts))}.json"
    if note.exists():
        known = json.loads(note.read_text())
        path = blobs() / known["digest"].removeprefix("sha256:")
        if path.exists():
            return oci.Layer(known["digest"], known["size"], path)
    layer = oci.layer_from_trees(base.trees(), blobs())
    half = note.with_suffix(".half")
    half.write_text(json.dumps({"digest": layer.digest, "size": layer.size}))
    half.rename(note)
    return layer


def _drop_old_blobs(kept: set[Path]) -> None:
    """Remove layers of older states; their notes go with them."""
    for path in blobs().iterdir():
        if path.suffix == ".json":
            known = json.loads(path.read_text())["digest"].removeprefix("sha256:")
            if blobs() / known not in kept:
                path.unlink()
        elif path not in kept:
            path.unlink()


def code_files(code: Code) -> list[Path]:
    """The files and folders of the working tree that make up this image's last layer, those that exist."""
    program = (code.program,) if code.program else ()
    return [REPO / path for path in (*code.paths, *program) if (REPO / path).exists()]


def golden_part() -> Part:
    """The store for the present working tree."""
    base = images_part()
    key = key_of(
        "golden 1", base.key, *map(repr, CODES), *(file for code in CODES for file in code_files(code))
    )
    return Part(
        name="golden",
        path=cache_root() / "golden" / key[:16],
        key=key,
        build=_build_golden,
        needs=("images",),
    )


def _build_golden(path: Path) -> None:
    """Clone the base store and add one small layer for each image of code."""
    known = bases()
    layers = {name: base_layer(known[name]) for code in CODES for name in code.bases}
    store.clone(images_part().path, path)
    (path / MARKER).unlink()
    with tempfile.TemporaryDirectory(prefix="remediator-layers-") as folder:
        images = [code_image(code, layers, Path(folder)) for code in CODES]
        store.import_images(path, programs(), images, omit={layer.digest for layer in layers.values()})
    _drop_old_golden(path.parent)


def code_image(code: Code, layers: dict[str, oci.Layer], folder: Path) -> oci.Image:
    """Base layers and one small layer with files of the working tree."""
    trees = [oci.Tree(path, _place(code, path), _NOT_CODE) for path in code_files(code)]
    top = oci.layer_from_trees(trees, folder, oci.CODE_TIME)
    under = (layers[name] for name in code.bases)
    return oci.Image(f"localhost/{code.name}:1", (*under, top), code.entrypoint, dict(code.env))


def _place(code: Code, path: Path) -> str:
    """Where a path of the repository lies in the image."""
    inside = str(path.relative_to(REPO))
    return f"usr/local/bin/{path.name}" if inside == code.program else f"{APP}/{inside}"


def _drop_old_golden(folder: Path) -> None:
    """Keep the newest few; nodes that run from an older one keep their hard links."""
    stores = [path for path in folder.iterdir() if path.is_dir() and "." not in path.name]
    for path in sorted(stores, key=lambda p: p.stat().st_mtime, reverse=True)[KEEP_GOLDEN - 1 :]:
        remove_tree(path)
