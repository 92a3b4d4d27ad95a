"""Reasons other tools are known to write; whatever is not known stays somebody's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_bridge.reasons import author, quoted


@pytest.mark.parametrize(
    ("reason", "tool", "says"),
    [
        ("[compute_maintenance] node reboot process", "Soperator", "it reboots the node"),
        ("[compute_maintenance] node replacement process", "Soperator", "it has the node replaced"),
        ("[hardware_problem] gpu_health_check: x [hc_program]", "Soperator", "a hardware check failed"),
        ("[node_problem] gpu_health_check: ECC [prolog]", "Soperator", "a check of the node failed"),
        ("[user_problem] disk full: job 7 [slurm_job]", "Soperator", "a check blames a job"),
        ("root: [node_problem] x", "Soperator", "a check of the node failed"),
        ("[hardware_problem] after [node_problem]", "Soperator", "a hardware check failed"),
        (
            "Soperator auto-healing: node replacement process",
            "Soperator",
            "it has the node rebooted or replaced",
        ),
        ("Soperator activecheck: node drain process", "Soperator", "a check of the node failed"),
        ("soperator rolling update", "Soperator", "it updates the workers"),
        ("slurm-operator: [J] [NVSentinel] GPU fell off the bus", "NVSentinel", "it treats the node"),
        ("slurm-bridge: pod default/x", "slurm-bridge", "its pods have the node"),
        ("NHC: check_fs_mount: /scratch", "Node Health Check", "a check of the node failed"),
    ],
)
def test_a_tool_is_known_by_its_words(reason: str, tool: str, says: str) -> None:
    found = author(reason)
    assert found is not None
    assert (found.tool, found.says) == (tool, says)
    assert quoted(reason) == f"{reason!r} ({tool}: {says})"


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "remediator: i1 XID 79",
        "slurm-operator: Pod is terminating",
        "slurm-operator: Node (n) was cordoned, Pod (ns/p) must be cordoned",
        "Kill task failed",
        "node_problem",
        "admin: NHC: later",
        "compute_maintenance",
    ],
)
def test_other_words_have_no_tool(reason: str) -> None:
    assert author(reason) is None
    assert quoted(reason) == repr(reason)


@given(st.text())
def test_a_quoted_reason_is_one_line(reason: str) -> None:
    assert len(quoted(reason).splitlines()) <= 1
