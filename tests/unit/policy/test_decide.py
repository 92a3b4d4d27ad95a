from __future__ import annotations

from pathlib import Path

import pytest

from remediator.errors import BadInput
from remediator.model.signal import Signal
from remediator.policy.decide import Situation, decide
from remediator.policy.files import NEXT
from remediator.policy.rules import load
from remediator.settings.text import MOST_BYTES
from tests.unit.policy.inputs import machine, xid

RULES = load()
FREE = Situation(last_closed=None)


@pytest.mark.parametrize(
    ("signal", "action", "tier"),
    [
        (xid(79), "act", "T0"),
        (xid(79, kind="fallen_off_bus"), "act", "T0"),
        (xid(64), "act", "T0"),
        (xid(54), "act", "T0"),
        (xid(154, recovery_to=2), "act", "T0"),
        (xid(154, recovery_to=1), "act", "T1"),
        (xid(154, recovery_to=0), "record", "T3"),
        (xid(154, recovery_to=None), "record", "T3"),
        (xid(43), "record", "T3"),
        (xid(45), "record", "T3"),
        (xid(99999), "record", "T3"),
    ],
)
def test_each_code_acts_or_is_recorded(signal: Signal, action: str, tier: str) -> None:
    decision = decide(signal, machine(), RULES, FREE)
    assert (decision.action, decision.tier) == (action, tier)
    assert decision.sentence
    assert decision.policy == RULES.digest


def test_an_unknown_node_is_never_acted_on() -> None:
    assert decide(xid(79), None, RULES, FREE).action == "record"


def test_a_node_in_no_pool_is_never_acted_on() -> None:
    decision = decide(xid(79), machine(pool=None), RULES, FREE)
    assert decision.action == "record"
    assert "no pool" in decision.sentence


def test_an_observing_pool_holds_and_a_draining_pool_only_drains() -> None:
    assert decide(xid(79), machine(stage="observe"), RULES, FREE).action == "hold"
    assert decide(xid(79), machine(stage="drain-only"), RULES, FREE).plan == "drain-only"


def test_a_used_up_budget_of_the_tier_holds_and_says_why() -> None:
    full = Situation(None, refuse=lambda tier: f"the budget of {tier} is used up")
    decision = decide(xid(79), machine(), RULES, full)
    assert decision.action == "hold"
    assert "budget of T0 is used up" in decision.sentence
    suspects = Situation(None, refuse=lambda tier: None if tier == "T0" else "used up")
    assert decide(xid(79), machine(), RULES, suspects).action == "act"


def test_a_node_its_last_incident_still_fences_is_recorded() -> None:
    situation = Situation(last_closed="i1")
    assert decide(xid(79), machine(fenced_by="i1"), RULES, situation).action == "record"
    assert decide(xid(79), machine(fenced_by=None), RULES, situation).action == "act"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("version: 1\nrules: {}", "rules"),
        ("version: 2\nrules: {}", "version"),
        ("- a", "file"),
        (
            "version: 1\nrules: {a: {kinds: [xid], codes: [1], tier: X, plan: record, cause: abc, why: abc}}",
            "tier",
        ),
        (
            "version: 1\nrules: {a: {kinds: [xid], codes: [], tier: T0, plan: record, cause: abc, why: abc}}",
            "codes",
        ),
        (
            "version: 1\nrules: {a: {kinds: [xid], cod: [1], tier: T0, plan: record, cause: abc, why: abc}}",
            "cod",
        ),
        ("a: [", ":1:5: policy: not valid YAML"),
        ("version: 1\nrules: {}\nrules: {}", ":3:1: policy: not valid YAML (the key rules stands twice)"),
        ("version: 2026-99-99", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("\x00", "not valid YAML"),
        ("#" * (MOST_BYTES + 1), "longer than"),
        ("", "file"),
    ],
)
def test_a_broken_policy_names_file_and_field(tmp_path: Path, text: str, names: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert names in str(caught.value)
    assert str(caught.value).endswith(NEXT)


@pytest.mark.parametrize("path", ["none.yaml", "."])
def test_a_policy_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInput, match=f"cannot be read: .*; {NEXT}"):
        load(tmp_path / path)
