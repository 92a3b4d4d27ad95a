"""Prometheus and Alertmanager in the control plane's network, and the token shown at the service's door."""

from __future__ import annotations

import base64
import secrets
import shutil
from pathlib import Path
from typing import Any

from deploy.lab.control import Part
from deploy.lab.layout import REPO, Layout
from deploy.lab.spec import ALERTMANAGER_PORT, CONTROL_PLANE, PROMETHEUS_PORT, SLURM_NAMESPACE

SECRET = "remediator-alerts"  # noqa: S105 (a name)
SERVICE_RULES = "service.yaml"
_HERE = Path(__file__).parent / "config"
_RULES = REPO / "deploy" / "rules"


def write_files(layout: Layout, *, gpu_alerts: bool) -> None:
    """Both configurations, Alertmanager's token, and this project's rules; those about faults if wanted."""
    folder = layout.root / "monitoring"
    (folder / "rules").mkdir(parents=True)
    for name in ("alertmanager.yml", "prometheus.yml"):
        shutil.copy(_HERE / name, folder)
    for rule in sorted(_RULES.glob("*.yaml")):
        if gpu_alerts or rule.name == SERVICE_RULES:
            shutil.copy(rule, folder / "rules" / f"{rule.stem}.yml")
    token = token_file(layout)
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))


def token_file(layout: Layout) -> Path:
    """What Alertmanager shows at the service's door; it reads the file at every request."""
    return layout.root / "monitoring" / "alerts.token"


def manifests(layout: Layout) -> list[dict[str, Any]]:
    """The Secret with Alertmanager's token, and the one that would be next."""
    tokens = {"token": token_file(layout).read_bytes(), "next": secrets.token_hex(32).encode()}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": SLURM_NAMESPACE},
            "data": {name: base64.b64encode(token).decode() for name, token in tokens.items()},
        }
    ]


def prometheus(layout: Layout) -> Part:
    """Scrapes the service's controller and agents and every dcgm-exporter, each 5 s."""
    argv = (
        "prometheus",
        f"--config.file={layout.root}/monitoring/prometheus.yml",
        "--storage.tsdb.path=/var/lib/prometheus",
        f"--web.listen-address={CONTROL_PLANE}:{PROMETHEUS_PORT}",
        "--rules.alert.resend-delay=5s",
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
