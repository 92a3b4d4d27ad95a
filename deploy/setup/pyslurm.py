"""The part `pyslurm`: pyslurm for the Slurm root's own Slurm and Python, in /opt/pyslurm, built by the same
script as the image for a site. Only the worker process of slurm_bridge ever loads it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.setup import chroot, progress
from deploy.setup.cache import REPO, Part, cache_root, key_of
from deploy.setup.host import PYPI
from deploy.setup.roots import SLURM, root_part
from deploy.setup.wheels import pip_settings

RECIPE = REPO / "deploy/images/pyslurm"
PYTHON = "/opt/pyslurm/bin/python"
_FILES = ("build.sh", "build.txt", "pyslurm.txt")


def pyslurm_part() -> Part:
    """The folder that lies over the Slurm root's /opt."""
    root = root_part(SLURM)
    return Part(
        name="pyslurm",
        path=cache_root() / "pyslurm",
        key=key_of("pyslurm 1", root.key, *(RECIPE / name for name in _FILES)),
        build=build,
        needs=("slurm-root",),
    )


def build(path: Path) -> None:
    """Build into <path>/opt, and load it once from there."""
    root, pip_cache, recipe = root_part(SLURM).path, cache_root() / "pip", path / "opt" / "recipe"
    pip_cache.mkdir(exist_ok=True)
    recipe.mkdir(parents=True)
    for name in _FILES:
        shutil.copy(RECIPE / name, recipe / name)
    binds = {"/opt": path / "opt", "/dev": Path("/dev"), "/mnt": pip_cache, **chroot.network_binds(root)}
    env = {**pip_settings(), "PIP_CACHE_DIR": "/mnt", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    progress.say("pyslurm", "building pyslurm from source (about 1 min)")
    for command in (["sh", "/opt/recipe/build.sh", "/opt/recipe"], [PYTHON, "-c", "import pyslurm"]):
        chroot.run_inside(
            "pyslurm", root, command, binds=binds, deadline=900, registry=PYPI,
            env={**env, "PYSLURM_DISABLE_AUTO_INIT": "1"},
        )  # fmt: skip
    shutil.rmtree(recipe)
