"""What is applied to the cluster: DNS, Slurm's service and keys, the Slinky stand-in, our own service."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.lab import monitoring, slurm
from deploy.lab.control import Control, Part
from deploy.lab.enter import Entry
from deploy.lab.errors import LabError
from deploy.lab.layout import REPO, Layout

_LAB = REPO / "deploy" / "lab"
_SERVICE = REPO / "deploy" / "manifests"
OPERATOR_VARIABLE = "LAB_SLURM_OPERATOR"
CRDS_VARIABLE = "LAB_SLURM_OPERATOR_CRDS"


def apply_all(layout: Layout, entry: Entry, control: Control, *, service: bool) -> None:
    """Apply everything in the order of need, once the API server answers: what others are kinds of or lie in,
    then the rest. LAB_SLURM_OPERATOR puts a real operator in the stand-in's place.
    """
    operator = os.environ.get(OPERATOR_VARIABLE)
    slinky = _yaml(_LAB / "slinky")
    definitions = (
        _foreign_definitions(layout) if operator else [file for file in slinky if "crd" in file.name]
    )
    first = [*slurm.manifests(layout), *monitoring.manifests(layout)]
    _apply(layout, entry, [*_yaml(_LAB / "manifests"), *definitions], stdin=first)
    _kubectl(layout, entry, ["wait", "--for=condition=Established", "--timeout=50s", *_files(definitions)])
    unwanted = ("crd", "operator") if operator else ("crd",)
    rest = [file for file in slinky if not any(word in file.name for word in unwanted)]
    if operator:
        control.start(_real_operator(layout, operator))
    _apply(layout, entry, [*rest, *(_yaml(_SERVICE) if service else [])])


def has_service() -> bool:
    """True when the repository has manifests of our own service."""
    return bool(_yaml(_SERVICE))


def _foreign_definitions(layout: Layout) -> list[Path]:
    """The real operator's CRDs; LabError when the variable does not name any."""
    named = os.environ.get(CRDS_VARIABLE)
    found = _yaml(Path(named)) if named else []
    if not found:
        raise LabError(f"{OPERATOR_VARIABLE} is set: set {CRDS_VARIABLE} to the folder of its CRDs, too")
    return [_inside(layout, file) for file in found]


def _real_operator(layout: Layout, program: str) -> Part:
    """Out of cluster, as its developers run it; DEBUG makes it speak to slurmrestd on localhost."""
    copy = _inside(layout, Path(program))
    return Part("operator", (str(copy),), str(layout.logs / "operator.log"), {"DEBUG": "1"})


def _inside(layout: Layout, file: Path) -> Path:
    """A copy in the lab's own folder: the lab does not see the machine's /tmp, /var and /run."""
    folder = layout.root / "operator"
    folder.mkdir(exist_ok=True)
    try:
        return Path(shutil.copy(file, folder))
    except OSError as error:
        raise LabError(f"{file}: {error.strerror}: see {OPERATOR_VARIABLE} and {CRDS_VARIABLE}") from None


def _yaml(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("*.yaml")) if path.is_dir() else []


def _files(files: Iterable[Path]) -> list[str]:
    return [word for file in files for word in ("-f", str(file))]


def _apply(layout: Layout, entry: Entry, files: Sequence[Path], stdin: Sequence[object] = ()) -> None:
    """Server-side, so that large definitions fit; the objects of `stdin` come first."""
    text = "\n---\n".join(json.dumps(item) for item in stdin)
    first = ["-f", "-"] if stdin else []
    arguments = ["apply", "--server-side", "--force-conflicts", *first, *_files(files)]
    _kubectl(layout, entry, arguments, text if stdin else None)


def _kubectl(layout: Layout, entry: Entry, arguments: Sequence[str], text: str | None = None) -> None:
    done = entry.run([str(layout.binary("kubectl")), *arguments], check=False, stdin=text)
    if done.returncode != 0:
        raise LabError(f"kubectl {arguments[0]} failed: {done.stderr.strip()}")
