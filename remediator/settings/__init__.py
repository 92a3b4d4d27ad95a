"""The one settings tree: a YAML file, overridden by REMEDIATOR_SECTION__FIELD variables."""

from __future__ import annotations

from remediator.model.machine import Stage, Stages
from remediator.settings.example import example
from remediator.settings.limits import GuardLimits, GuardSettings, MachineLimits
from remediator.settings.load import load, overrides
from remediator.settings.problems import SettingsError
from remediator.settings.tree import (
    Acceptance,
    Alertmanager,
    BreakerSettings,
    Budgets,
    Cluster,
    Crashes,
    Http,
    Kubernetes,
    Leadership,
    Limit,
    Log,
    Pool,
    Prometheus,
    Requeues,
    Settings,
    Share,
    Slurm,
    Store,
    Webhook,
    Witness,
)

__all__ = [
    "Acceptance",
    "Alertmanager",
    "BreakerSettings",
    "Budgets",
    "Cluster",
    "Crashes",
    "GuardLimits",
    "GuardSettings",
    "Http",
    "Kubernetes",
    "Leadership",
    "Limit",
    "Log",
    "MachineLimits",
    "Pool",
    "Prometheus",
    "Requeues",
    "Settings",
    "SettingsError",
    "Share",
    "Slurm",
    "Stage",
    "Stages",
    "Store",
    "Webhook",
    "Witness",
    "example",
    "load",
    "overrides",
]
