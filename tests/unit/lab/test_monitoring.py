"""The chain of alerts in the lab: what its programs are told, judged by their own tools."""

from __future__ import annotations

import base64
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.lab import monitoring, spec
from deploy.lab.layout import REPO, Layout
from deploy.setup.parts import ensure


@pytest.fixture(scope="module")
def tools() -> Path:
    return ensure("debs")["debs"] / "root/usr/bin"


@pytest.fixture
def lab(tmp_path: Path) -> Layout:
    found = Layout(tmp_path, "x")
    monitoring.write_files(found, gpu_alerts=True)
    return found


@pytest.mark.parametrize(
    "command",
    [("promtool", "check", "config", "prometheus.yml"), ("amtool", "check-config", "alertmanager.yml")],
    ids=lambda command: str(command[0]),
)
def test_its_own_tool_accepts_the_configuration(tools: Path, lab: Layout, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [tools / command[0], *command[1:]],
        cwd=lab.root / "monitoring", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_what_is_for_the_service_is_told_to_it(tools: Path, lab: Layout) -> None:
    for labels, receiver in (["route=remediator"], "remediator"), (["severity=critical"], "nobody"):
        file = f"--config.file={lab.root}/monitoring/alertmanager.yml"
        test = [str(tools / "amtool"), "config", "routes", "test", file, *labels]
        assert subprocess.run(test, capture_output=True, text=True, check=True).stdout.strip() == receiver


def test_every_gpu_node_is_scraped() -> None:
    told = yaml.safe_load((REPO / "deploy/lab/config/prometheus.yml").read_text())
    (dcgm,) = (job for job in told["scrape_configs"] if job["job_name"] == "dcgm")
    gpu_nodes = [node for node in spec.NODES if node.gpus]
    assert dcgm["static_configs"][0]["targets"] == [f"{node.address}:{spec.DCGM_PORT}" for node in gpu_nodes]


def test_gpu_alerts_can_be_left_out(tmp_path: Path) -> None:
    found = Layout(tmp_path, "quiet")
    monitoring.write_files(found, gpu_alerts=False)
    assert [file.name for file in (found.root / "monitoring/rules").iterdir()] == ["service.yml"]


def test_alertmanager_holds_the_token_that_the_controller_takes(lab: Layout) -> None:
    (secret,) = monitoring.manifests(lab)
    held = monitoring.token_file(lab)
    assert base64.b64decode(secret["data"]["token"]) == held.read_bytes()
    assert stat.S_IMODE(held.stat().st_mode) == 0o600
    assert len(set(secret["data"].values())) == 2
    manifest = (REPO / "deploy/manifests/controller.yaml").read_text()
    (pod,) = (
        o["spec"]["template"]["spec"] for o in yaml.safe_load_all(manifest) if o["kind"] == "Deployment"
    )
    assert monitoring.SECRET in [volume.get("secret", {}).get("secretName") for volume in pod["volumes"]]
