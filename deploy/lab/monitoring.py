"""Prometheus and Alertmanager in the control plane's network."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.lab.control import Part
from deploy.lab.layout import REPO, Layout
from deploy.lab.spec import ALERTMANAGER_PORT, CONTROL_PLANE, PROMETHEUS_PORT

_HERE = Path(__file__).parent / "config"
_RULES = REPO / "deploy" / "rules"


def write_files(layout: Layout) -> None:
    """Both configurations, and this project's rules when there are any."""
    folder = layout.root / "monitoring"
    (folder / "rules").mkdir(parents=True)
    for name in ("alertmanager.yml", "prometheus.yml"):
        shutil.copy(_HERE / name, folder)
    for rule in sorted(_RULES.glob("*.y*ml")) if _RULES.is_dir() else ():
        shutil.copy(rule, folder / "rules" / f"{rule.stem}.yml")


def prometheus(layout: Layout) -> Part:
    """Scrapes the service's controller and agents every 5 s."""
    argv = (
        "prometheus",
        f"--config.file={layout.root}/monitoring/prometheus.yml",
        "--storage.tsdb.path=/var/lib/prometheus",
        f"--web.listen-address={CONTROL_PLANE}:{PROMETHEUS_PORT}",
    )
    return Part("prometheus", argv, str(layout.logs / "prometheus.log"))


def alertmanager(layout: Layout) -> Part:
    """One Alertmanager, no cluster."""
    argv = (
        "prometheus-alertmanager",
        f"--config.file={layout.root}/monitoring/alertmanager.yml",
        "--storage.path=/var/lib/alertmanager",
        f"--web.listen-address={CONTROL_PLANE}:{ALERTMANAGER_PORT}",
        "--cluster.listen-address=",
    )
    return Part("alertmanager", argv, str(layout.logs / "alertmanager.log"))
