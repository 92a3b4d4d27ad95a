"""All parts by name, and the order in which they are built: independent ones side by side."""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from deploy.setup import gobin, host, images, process, pyslurm, roots, wheels
from deploy.setup.cache import Part, ensure_part, is_current
from deploy.setup.debs import debs_part
from deploy.setup.errors import SetupError

GROUPS = {"all": ("venv", "golden"), "test-deps": ("venv", "golden"), "lab": ("golden",)}


def all_parts() -> dict[str, Part]:
    """Every part, by name, those that others need first."""
    parts = [
        host.apt_part(),
        host.venv_part(),
        gobin.gobin_part(),
        debs_part(),
        roots.root_part(roots.SLURM),
        roots.root_part(roots.PYTHON),
        pyslurm.pyslurm_part(),
        wheels.wheels_part("service"),
        wheels.wheels_part("agent"),
        images.images_part(),
        images.golden_part(),
    ]
    return {part.name: part for part in parts}


def with_needs(names: tuple[str, ...], parts: dict[str, Part]) -> list[Part]:
    """The named parts and groups with all they need, needs first."""
    ordered: dict[str, Part] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        if name not in parts:
            raise SetupError(f"{name}: no such part; there are {' '.join([*parts, *GROUPS])}")
        for needed in parts[name].needs:
            add(needed)
        ordered[name] = parts[name]

    for name in names:
        for member in GROUPS.get(name, (name,)):
            add(member)
    return list(ordered.values())


def ensure(*names: str) -> dict[str, Path]:
    """Build what is not current of the named parts and of all they need; returns folders by part name."""
    wanted = with_needs(names, all_parts())
    if not all(is_current(part) for part in wanted):
        _build(wanted)
    return {part.name: part.path for part in wanted}


def golden() -> Path:
    """The containerd store for the present working tree, built when it is not there yet."""
    path = ensure("golden")["golden"]
    os.utime(path)  # in use: the last to be dropped
    return path


def _build(wanted: list[Part]) -> None:
    """Each part in a thread that first waits for the parts it needs; the first failure ends the others."""
    running: dict[str, Future[bool]] = {}

    def build(part: Part) -> bool:
        for needed in part.needs:
            running[needed].result()
        return ensure_part(part)

    try:
        with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
            try:
                for part in wanted:
                    running[part.name] = pool.submit(build, part)
                _raise_first_failure(running.values())
            except BaseException:  # an interrupt too: without its programs the pool ends at once
                process.stop_all()
                raise
    finally:
        process.allow_all()


def _raise_first_failure(futures: Collection[Future[bool]]) -> None:
    """Wait until one fails or all are done; needs come first, so the first failure found is the cause."""
    done = wait(futures, return_when=FIRST_EXCEPTION).done
    for future in futures:
        if future in done:
            future.result()
