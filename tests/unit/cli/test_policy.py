"""`remediator policy`: what people and scripts read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from remediator.cli.main import app

Run = Callable[..., Any]
RULE = "kinds: [alert], tier: T1, cause: some cause, why: some reason, source: some source"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, ["policy", *map(str, words)])


def overlay(folder: Path, rules: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(f"version: 1\nrules: {{{rules}}}")
    return path


def test_the_rules_that_come_with_the_service_are_sound(run: Run) -> None:
    found = run("check")
    assert found.exit_code == 0
    assert found.stdout.startswith("ok: ")
    assert "overlay: none; catalogues: xid of 2025-10-29" in found.stdout
    assert json.loads(run("check", "--json").stdout)["ok"] is True


def test_an_overlay_of_the_settings_is_checked_with_them(run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    site = overlay(tmp_path, "gpu-off-the-bus: {plan: record}")
    settings.write_text(
        f"cluster: {{name: c}}\nslurm: {{url: http://s:1}}\npools: {{gpu: {{node_selector: {{a: b}}}}}}\n"
        f"policy: {{overlay: {site}}}\n"
    )
    assert f"overlay: {site}" in run("check", "--settings", settings).stdout
    assert "T0, record" in run("explain", "79", "--settings", settings).stdout


def test_check_says_what_an_overlay_changes(run: Run, tmp_path: Path) -> None:
    mine = f"{{{RULE}, plan: record, page: true}}"
    site = overlay(tmp_path, f"gpu-off-the-bus: {{plan: record, why: we say so}}, noise: null, mine: {mine}")
    found = run("check", site)
    changes = [line.strip() for line in found.stdout.splitlines() if line.startswith("  ")]
    assert changes == [
        "changes gpu-off-the-bus: plan replace -> record, why",
        "adds mine: T1, record",
        "removes noise",
    ]
    assert json.loads(run("check", site, "--json").stdout)["changes"] == changes


def test_a_refused_overlay_is_status_2_with_every_problem(run: Run, tmp_path: Path) -> None:
    site = overlay(tmp_path, "gpu-off-the-bus: {plan: explode}, power-cable: {tier: T7}")
    found = run("check", site)
    assert found.exit_code == 2
    assert found.stderr.count(f"error: {site}:2:") == 2
    as_json = run("check", site, "--json")
    assert as_json.exit_code == 2
    assert len(json.loads(as_json.stdout)["problems"]) == 2


def test_a_wrong_row_of_a_sites_conditions_is_refused_too(run: Run, tmp_path: Path) -> None:
    overlay(tmp_path, "gpu-off-the-bus: {plan: record}")
    (tmp_path / "node_conditions.csv").write_text("type,bad\nMine,maybe\n")
    found = run("check", tmp_path, "--json")
    assert found.exit_code == 2
    (problem,) = json.loads(found.stdout)["problems"]
    assert f"{tmp_path}/node_conditions.csv:2: " in problem
    assert run("check", tmp_path).exit_code != 0


@pytest.mark.parametrize(
    "when",
    [
        "alertname == 'GpuUtilisationLow'",
        "labels['metric'] == 'DCGM_FI_DEV_GPU_UTIL'",
        "alertname == 'gpu_util'",
    ],
)
def test_a_rule_that_trusts_gpu_utilisation_is_warned_of(run: Run, tmp_path: Path, when: str) -> None:
    site = tmp_path / "site.yaml"
    sample = "{alertname: GpuUtilisationLow, labels: {metric: DCGM_FI_DEV_GPU_UTIL}}, {alertname: gpu_util}"
    site.write_text(
        f"version: 1\nkinds: {{alert: {{samples: [{sample}]}}}}\n"
        f'rules: {{lazy: {{{RULE}, plan: record, when: "{when}"}}}}'
    )
    found = run("check", site)
    assert found.exit_code == 1
    assert "lazy: trusts GPU utilisation" in found.stdout
    assert "tensor activity" in found.stdout


ALERTS = """
groups:
- name: idle
  rules:
  - record: job:busy:avg
    expr: avg by (pod) ({expr})  # 0 to 1
  - record: job:busy:low
    expr: job:busy:avg < 0.1
  - alert: Idle
    expr: job:busy:low
  - alert: Hot
    expr: DCGM_FI_DEV_GPU_TEMP > 80  # not DCGM_FI_DEV_GPU_UTIL
"""
UTILISATION = [
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_UTIL_RATIO",
    'max_over_time({__name__="DCGM_FI_DEV_GPU_UTIL"}[5m])',
    "nvidia_smi_utilization_gpu_ratio",
    "remediator_gpu_utilization_ratio",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "kubernetes_io:node_accelerator_duty_cycle",
]


@pytest.mark.parametrize("metric", UTILISATION)
@pytest.mark.parametrize("wrapped", [False, True], ids=["rules", "PrometheusRule"])
def test_an_alert_that_trusts_gpu_utilisation_is_warned_of(
    run: Run, tmp_path: Path, metric: str, wrapped: bool
) -> None:
    """However it comes to its expression, and only it."""
    text = ALERTS.replace("{expr}", metric)
    if wrapped:
        lines = [f"  {line}" for line in text.splitlines()]
        text = "\n".join(["apiVersion: monitoring.coreos.com/v1", "kind: PrometheusRule", "spec:", *lines])
    file = tmp_path / "idle.yaml"
    file.write_text(text)
    found = run("check", "--alerts", tmp_path, "--json")
    assert found.exit_code == 1
    (warning,) = json.loads(found.stdout)["warnings"]
    assert warning.startswith(f"{file}:{12 if wrapped else 9}: Idle: trusts GPU utilisation")
    assert "tensor activity (job:busy:low)" in warning


def test_an_alert_that_asks_for_tensor_activity_too_is_sound(run: Run, tmp_path: Path) -> None:
    expr = "DCGM_FI_DEV_GPU_UTIL > 99 and DCGM_FI_PROF_PIPE_TENSOR_ACTIVE < 0.001"
    (tmp_path / "hang.yaml").write_text(ALERTS.replace("{expr}", expr))
    assert run("check", "--alerts", tmp_path).exit_code == 0


def test_the_alerts_that_come_with_the_service_are_sound(run: Run) -> None:
    assert run("check", "--alerts", Path(__file__).parents[3] / "deploy/rules").exit_code == 0


@pytest.mark.parametrize(
    "text", ["[1]", "groups: 5", "groups: [{rules: [{alert: A}]}]", "a: [", "", "spec: 1"]
)
def test_what_is_no_file_of_alerts_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    found = run("check", "--alerts", file)
    assert found.exit_code == 2
    assert f"error: {file}" in found.stderr
    assert run("check", "--alerts", tmp_path / "missing.yaml").exit_code == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["79"],
            ["XID 79: ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", "rule gpu-off-the-bus", "T0, replace, now"],
        ),
        (
            ["xid63"],
            ["they disagree: NVIDIA IGNORE, gpud reboot", "azurehpc-health-checks", "rule reset-when-idle"],
        ),
        (["sxid 20034"], ["SXid 20034: LTSSM Fault Up", "RESET_GPU", "rule switch-link-down"]),
        (["18005"], ["SXid 18005: NVLIPT", "no rule speaks about it: recorded"]),
        (["154"], ["when recovery_to == 2 ||", "when recovery_to == 5"]),
        (["163"], ["no rule speaks about it: recorded (Disengaged"]),
        (["74"], ["rule nvlink-error ", "  inference: pods with one GPU, once the GPU was reset"]),
        (["95"], ["T1, replace, now", "  inference: nothing: whatever computed on the GPU may be wrong"]),
        (
            ["20034"],
            ["T1, validate\n", "  inference: nothing: policies/inference.yaml does not say otherwise"],
        ),
        (["gpu-hot"], ["gpu-hot: a kind of signals", "rule thermal-hot (policies/thermal.yaml:"]),
        (["job-aborted"], ["rule job-aborted: the job aborted", "a strike against its nodes"]),
        (["thermal-hot"], ["rule thermal-hot: GPU above", "inference: anything, once its power is capped"]),
        (["999"], ["XID 999: is in no catalogue", "people are told once an hour"]),
        (["31999"], ["SXid 31999: is in no catalogue"]),
    ],
)
def test_a_code_is_explained(run: Run, words: list[str], says: list[str]) -> None:
    found = run("explain", *words)
    assert found.exit_code == 0
    for part in says:
        assert part in found.stdout
    assert json.loads(run("explain", *words, "--json").stdout)["what"] in found.stdout


def test_what_is_no_code_is_refused(run: Run) -> None:
    found = run("explain", "hot")
    assert found.exit_code == 2
    assert "write 79, xid79, sxid20034 or gpu-hot" in found.stderr
    assert "did you mean thermal-hot?" in run("explain", "termal-hot").stderr


def test_the_cases_that_come_with_the_service_hold(run: Run) -> None:
    found = run("test")
    assert found.exit_code == 0
    assert found.stdout.strip().endswith("cases hold")


def test_a_case_that_does_not_hold_shows_expected_beside_found(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "version: 1\ncases:\n- name: all is well with XID 79\n"
        "  given: {kind: xid, code: 79}\n  expect: {action: record, tier: T0, says: nothing}\n"
        "- name: a table\n  given: {kind: xid, code: 13}\n  expect: {action: record}\n"
    )
    found = run("test", file)
    assert found.exit_code == 1
    assert f"{file}:3: all is well with XID 79" in found.stdout
    assert ["action", "record", "act"] in [line.split() for line in found.stdout.splitlines()]
    assert "tier" not in found.stdout
    assert "1 of 2 cases hold" in found.stdout
    holds = [one["holds"] for one in json.loads(run("test", file, "--json").stdout)]
    assert holds == [False, True]


def test_cases_can_be_tried_on_an_overlay(run: Run, tmp_path: Path) -> None:
    site = overlay(tmp_path, "gpu-off-the-bus: {plan: record}")
    found = run("test", "--overlay", site)
    assert found.exit_code == 1
    assert "a GPU that fell off the bus is replaced at once" in found.stdout
