"""The one settings tree: a YAML file, overridden by REMEDIATOR_SECTION__FIELD variables."""

from __future__ import annotations

from remediator.settings.example import example
from remediator.settings.load import load, overrides
from remediator.settings.problems import SettingsError
from remediator.settings.tree import (
    Budgets,
    Cluster,
    Http,
    Kubernetes,
    Leadership,
    Log,
    Pool,
    Settings,
    Share,
    Slurm,
    Stage,
    Store,
)

__all__ = [
    "Budgets",
    "Cluster",
    "Http",
    "Kubernetes",
    "Leadership",
    "Log",
    "Pool",
    "Settings",
    "SettingsError",
    "Share",
    "Slurm",
    "Stage",
    "Store",
    "example",
    "load",
    "overrides",
]
