"""Opening the store for verbs that only read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from remediator.settings import load
from remediator.store.engine import Store, open_read_only

SettingsFile = Annotated[Path, typer.Option(envvar="REMEDIATOR_SETTINGS", help="Settings file in YAML.")]
DEFAULT = Path("/etc/remediator/settings.yaml")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def open_from(settings: Path) -> Store:
    """The store the settings name, read-only."""
    return open_read_only(load(settings, os.environ).store.url)
