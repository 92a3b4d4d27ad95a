"""What an acceptance test's pod says, in the words of kubelets that give it no chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.clock import rfc3339
from remediator.kube.acceptance import PROOF, TestPod, is_proven, judged, pod_name
from remediator.kube.nodes import parse_node

NOW = 1_800_000_000.0
TEST = TestPod("localhost/test:1", deadline_s=300)


def pod(status: dict[str, Any], age: float = 1.0) -> dict[str, Any]:
    return {"metadata": {"name": "t", "creationTimestamp": rfc3339(NOW - age)}, "status": status}


def container(**state: dict[str, Any]) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "test", "state": state}]}


CASES: dict[str, tuple[dict[str, Any], float, str, str]] = {
    "no GPU could be given": (
        {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed: requested 8"},
        1.0,
        "failed",
        "acceptance test failed: UnexpectedAdmissionError, Allocate failed: requested 8",
    ),
    "its deadline passed": (
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        301.0,
        "failed",
        "acceptance test failed: DeadlineExceeded",
    ),
    "killed without a word": (
        {"phase": "Failed", **container(terminated={"exitCode": 137, "reason": "OOMKilled"})},
        9.0,
        "failed",
        "acceptance test failed: OOMKilled",
    ),
    "it said what is wrong": (
        {"phase": "Failed", **container(terminated={"exitCode": 1, "message": "a\nb\x1b[31m\n"})},
        9.0,
        "failed",
        "acceptance test failed: b [31m",
    ),
    "no word, no reason": ({"phase": "Succeeded"}, 9.0, "passed", "acceptance test passed"),
    "no image": (
        {"phase": "Pending", **container(waiting={"reason": "ErrImageNeverPull"})},
        9.0,
        "cannot-start",
        "the acceptance test cannot start (ErrImageNeverPull): check acceptance.image (localhost/test:1)",
    ),
    "still starting": (
        {"phase": "Pending", **container(waiting={"reason": "ContainerCreating"})},
        9.0,
        "running",
        "acceptance test t is Pending",
    ),
    "a kubelet that says nothing": ({}, 400.0, "failed", "acceptance test t did not end within 300 s"),
}


@pytest.mark.parametrize(("status", "age", "state", "sentence"), CASES.values(), ids=CASES.keys())
def test_a_pods_state_is_one_verdict_and_one_line(
    status: dict[str, Any], age: float, state: str, sentence: str
) -> None:
    trial = judged(pod(status, age), TEST, NOW)
    assert (trial.state, trial.sentence) == (state, sentence)
    assert trial.begun == (status.get("reason") != "UnexpectedAdmissionError")


@given(st.text(max_size=80))
def test_a_proof_nobody_can_read_proves_nothing(written: str) -> None:
    raw = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": {PROOF: written}},
        "status": {"nodeInfo": {"bootID": "b"}},
    }
    node = parse_node(raw)
    assert node is not None
    assert not is_proven(node, NOW)


def test_the_name_is_a_host_name_with_the_incident_and_the_machine_in_it() -> None:
    name = pod_name("1kf3x0q2c-7p4m2c9h", "2f1c9f3e-7a55-4c3b-9a58-0d3c5b7a9e11")
    assert name == "remediator-test-1kf3x0q2c-7p4m2c9h-0d3c5b7a9e11"
    assert len(name) <= 63
