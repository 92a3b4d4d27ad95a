"""The page that tells a site how to wire its Alertmanager: what it says to write is what the tools accept."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.setup.parts import ensure
from remediator.settings import Settings
from tests.docs.snippets import snippets

BASE: dict[str, Any] = {"route": {"receiver": "pager"}, "receivers": [{"name": "pager"}]}
"""What a site has already."""


@pytest.fixture(scope="module")
def amtool() -> Path:
    return ensure("debs")["debs"] / "root/usr/bin/amtool"


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A site's file with the page's route and receiver put into it."""
    told = the_yaml_with("receivers")
    merged = {
        "route": BASE["route"] | told["route"],
        "receivers": [*BASE["receivers"], *told["receivers"]],
    }
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(merged))
    return file


def the_yaml_with(key: str) -> dict[str, Any]:
    (found,) = [
        part for part in map(yaml.safe_load, snippets("runbooks/alertmanager.md", "yaml")) if key in part
    ]
    return dict(found)


def test_alertmanager_takes_the_route_and_the_receiver(amtool: Path, configuration: Path) -> None:
    done = subprocess.run(
        [amtool, "check-config", configuration], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=GpuXidByDcgm", "route=remediator"], "remediator"),
        (["alertname=RemediatorNoLeader", "severity=critical"], "pager"),
    ],
)
def test_only_alerts_for_the_service_go_there(
    amtool: Path, configuration: Path, labels: list[str], receiver: str
) -> None:
    test = [str(amtool), "config", "routes", "test", f"--config.file={configuration}", *labels]
    assert subprocess.run(test, capture_output=True, text=True, check=True).stdout.strip() == receiver


def test_the_service_takes_the_settings() -> None:
    required = {
        "cluster": {"name": "c"},
        "slurm": {"url": "http://slurm-restapi.slurm:6820"},
        "pools": {"gpu": {"node_selector": {"a": "b"}}},
    }
    found = Settings.model_validate(required | the_yaml_with("webhook"))
    assert found.webhook.token_paths == (Path("/var/run/secrets/alerts/token"),)
    assert found.alertmanager.url
    assert found.prometheus.url
