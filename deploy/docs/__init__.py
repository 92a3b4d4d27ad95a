"""Reference pages that are written from the code: settings, command line, metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deploy.docs import cli, metrics, settings
from deploy.setup.cache import REPO

FOLDER = REPO / "runbooks/reference"
COMMAND = "make docs"
PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings.page,
    "cli.md": cli.page,
    "metrics.md": metrics.page,
}


def stale(folder: Path = FOLDER) -> list[str]:
    """The pages that do not say what the code says."""
    return [name for name, page in PAGES.items() if not _says(folder / name, page())]


def write(folder: Path = FOLDER) -> list[str]:
    """Write the stale pages; their names."""
    names = stale(folder)
    for name in names:
        (folder / name).write_text(PAGES[name]())
    return names


def _says(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text() == text
