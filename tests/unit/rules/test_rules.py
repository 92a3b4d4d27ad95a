"""The alert rules, judged by the real promtool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.setup.parts import ensure
from remediator.model.faults import COUNTED, NAMED

RULES = Path(__file__).parents[3] / "deploy" / "rules"
RUNBOOKS = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def promtool() -> Path:
    return ensure("debs")["debs"] / "root/usr/bin/promtool"


@pytest.mark.parametrize("file", sorted(RULES.glob("*.yaml")), ids=lambda file: str(file.name))
def test_rules_are_valid(promtool: Path, file: Path) -> None:
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted((RULES / "tests").glob("*.yaml")), ids=lambda file: str(file.name))
def test_each_alert_fires_when_it_should_and_only_then(promtool: Path, file: Path) -> None:
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted((RULES / "tests").glob("*.yaml")), ids=lambda file: str(file.name))
def test_a_test_of_several_groups_says_in_which_order_they_are_judged(file: Path) -> None:
    """promtool takes them in any order else, and one reads what another has recorded."""
    told = yaml.safe_load(file.read_text())
    groups = [
        group["name"]
        for name in told["rule_files"]
        for group in yaml.safe_load((file.parent / name).read_text())["groups"]
    ]
    assert len(groups) == 1 or sorted(told["group_eval_order"]) == sorted(groups)


def test_every_counted_fault_says_who_has_measured_it_and_on_which_node() -> None:
    """Without its witness an alert counts for nothing, without a node it is refused."""
    told = []
    for file in (RULES / "tests").glob("*.yaml"):
        for case in yaml.safe_load(file.read_text())["tests"]:
            for look in case.get("alert_rule_test", ()):
                told += [alert["exp_labels"] for alert in look.get("exp_alerts", ())]
    counted = [labels for labels in told if labels.get("fault") in COUNTED]
    assert {labels["fault"] for labels in counted} == COUNTED
    for labels in counted:
        assert labels["witness"] in {"own-counters", "dcgm-field", "node-exporter", "gpud"}, labels
        assert labels.keys() & {"node", "nodename", "hostname", "Hostname"}, labels


def test_every_fault_that_an_alert_names_is_one_the_service_knows() -> None:
    texts = [file.read_text() for file in RULES.glob("*.yaml")]
    assert {fault for text in texts for fault in re.findall(r"fault: ([\w-]+)", text)} == NAMED


def test_every_alert_is_tested_and_has_its_place_in_the_runbook() -> None:
    tested = "".join(file.read_text() for file in (RULES / "tests").glob("*.yaml"))
    for file in RULES.glob("*.yaml"):
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in (rule for rule in group["rules"] if "alert" in rule):
                page, _, anchor = rule["annotations"]["runbook"].partition("#")
                headings = re.findall(r"^## (\w+)", (RUNBOOKS / page).read_text(), re.MULTILINE)
                assert anchor in [heading.lower() for heading in headings]
                assert f"alertname: {rule['alert']}\n" in tested
