"""What a machine may serve that is unfit for training: only what a row allows, and nothing grave ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.errors import BadInput
from remediator.policy.inference import NOTHING
from remediator.policy.rules import BUILTIN, Rules, load

SHIPPED = load()
NEVER = (48, 62, 64, 79, 95, 119, 120, 140, 143, 158)
RULE = "tier: T1, plan: validate, cause: some cause, why: some reason, source: some source"
ROW = "serves: anything, why: some reason, source: some source"


def served(rules: Rules, code: int) -> set[str]:
    """What machines with this XID may serve."""
    rows = [rules.inference.get(name) for name, rule in rules.about("xid", code) if rule.acts]
    return {str(row.serves) for row in rows if row is not None} - {NOTHING}


def overlay(folder: Path, text: str) -> Rules:
    site = folder / "site.yaml"
    site.write_text(f"version: 1\n{text}\n")
    return load(overlay=site)


def test_rows_are_of_rules_that_act_and_never_of_final_ones() -> None:
    for name, row in SHIPPED.inference.items():
        rule = SHIPPED.rules[name]
        assert rule.acts
        assert row.serves == NOTHING or rule.tier != "T0"
        codes = rule.codes if "xid" in rule.kinds and row.serves == NOTHING and 154 not in rule.codes else ()
        assert set(row.codes) == set(codes), name


@pytest.mark.parametrize("code", NEVER)
def test_what_cannot_be_trusted_serves_nothing(code: int) -> None:
    assert served(SHIPPED, code) == set()
    assert served(SHIPPED, 154) == set()


@pytest.mark.parametrize(
    ("code", "name"), [*((code, "mine") for code in NEVER), (79, "gpu-off-the-bus"), (79, "nvlink-error")]
)
def test_no_overlay_lets_such_a_code_serve(tmp_path: Path, code: int, name: str) -> None:
    rule = f"{name}: {{kinds: [xid], codes: [{code}], over: [], {RULE}}}"
    gone = [one for one, _ in SHIPPED.about("xid", code) if one != name]
    removed = "".join(f", {one}: null" for one in gone)
    with pytest.raises(BadInput, match="serves nothing"):
        overlay(tmp_path, f"rules: {{{rule}{removed}}}\ninference: {{{name}: {{{ROW}}}}}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("inference: {gpu-lost: {serves: anything}}", ":2:13: inference.gpu-lost: serves nothing, and no"),
        ("inference: {gpu-lost: null}", ":2:13: inference.gpu-lost: serves nothing, and no overlay"),
        (f"inference: {{nobody: {{{ROW}}}}}", ":2:13: inference.nobody: is no rule"),
        (f"inference: {{hca-gone: {{{ROW}}}}}", "is final (T0), so it serves nothing"),
        (f"inference: {{noise: {{{ROW}}}}}", "takes no node out (record)"),
        ("inference: {thermal-hot: {serves: all}}", ":2:27: inference.thermal-hot.serves"),
        ("inference: {thermal-hot: {srves: anything}}", "did you mean serves?"),
        ("inference: {thermal-hot: {codes: [13]}}", "only a row that serves nothing has codes"),
    ],
)  # fmt: skip
def test_a_row_that_allows_too_much_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        overlay(tmp_path, text)
    assert says in str(caught.value)


def test_a_site_may_forbid_allow_less_and_allow_what_nobody_speaks_of(tmp_path: Path) -> None:
    rows = f"thermal-hot: null, nvlink-crc: {{once: we say so}}, switch-link-down: {{{ROW}}}"
    found = overlay(tmp_path, f"inference: {{{rows}}}").inference
    assert "thermal-hot" not in found
    assert (found["nvlink-crc"].serves, found["nvlink-crc"].once) == ("single-gpu", "we say so")
    assert found["switch-link-down"].serves == "anything"


@pytest.mark.parametrize("change", ["{tier: T0}", "{plan: record}", "{codes: [74, 79]}", "null"])
def test_a_rule_that_a_site_makes_graver_or_harmless_serves_nothing_any_more(
    tmp_path: Path, change: str
) -> None:
    rules = overlay(tmp_path, f"rules: {{nvlink-error: {change}, gpu-off-the-bus: null}}")
    assert "nvlink-error" not in rules.inference


def test_an_overlay_that_repeats_the_shipped_policy_changes_nothing() -> None:
    assert load(overlay=BUILTIN).inference == SHIPPED.inference
