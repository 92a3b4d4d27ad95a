"""Which policies are refused and where, how overlays merge, and which rule has the word."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from remediator.errors import BadInput
from remediator.model.machine import Machine
from remediator.policy.decide import Situation, decide
from remediator.policy.rules import BUILTIN, Rules, load
from tests.unit.policy.inputs import machine, xid

FREE = Situation(last_closed=None)
REST = "cause: some cause, why: some reason, source: some source"


def policy(folder: Path, text: str, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def rules(folder: Path, *entries: str, kinds: str = "{}", overlay: str = "") -> Rules:
    """A policy of these rules (`NAME: FIELDS`), each in flow style and completed by cause, why and source."""
    lines = [f"  {name}: {{{fields}, {REST}}}" for name, fields in (one.split(": ", 1) for one in entries)]
    path = policy(folder, "\n".join(["version: 1", f"kinds: {kinds}", "rules:", *lines]))
    over = policy(folder, f"version: 1\n{overlay}", "over.yml") if overlay else None
    return load(path, over)


def problem(folder: Path, *entries: str, **more: str) -> str:
    with pytest.raises(BadInput) as caught:
        rules(folder, *entries, **more)
    return str(caught.value)


HOT = "{hot: {facts: {celsius: double, text: string}, samples: [{celsius: 90.0, text: x}, {celsius: 50.0}]}}"


@pytest.mark.parametrize(
    ("entry", "at", "says"),
    [
        (
            "a: kinds: [hot], when: celcius > 1.0, tier: T1, plan: validate",
            "celcius",
            "the facts of its kinds are",
        ),
        ("a: kinds: [hot], when: celsius > 1, tier: T1, plan: validate", "> 1", "a number like 78.0"),
        ("a: kinds: [hot], when: 'celsius == text', tier: T1, plan: validate", "== text", "overload"),
        ("a: kinds: [hot], when: celsius + 1.0, tier: T1, plan: validate", "celsius +", "is double"),
        ("a: kinds: [hot], when: 'celsius >', tier: T1, plan: validate", "', tier", "mismatched input"),
        ("a: kinds: [hot], when: celsius > 1000.0, tier: T1, plan: validate", "when", "no sample"),
        ("a: kinds: [hot], codes: [3], tier: T1, plan: validate", "codes", "have no code"),
        (
            "a: kinds: [xid], codes: [3, 177], tier: T1, plan: validate",
            "codes",
            "177 has no row in policies/cat",
        ),
        ("a: kinds: [xid], tier: T1, plan: validate", "a:", "names no codes"),
        ("a: kinds: [cold], tier: T1, plan: validate", "cold", "no such kind; there are"),
        ("a: kinds: [hot], tier: T1, plan: drain-only", "plan", "nothing brings it back"),
        ("a: kinds: [hot], tier: T1, plan: validate, over: [b]", "b]", "is no rule"),
        ("a: kinds: [hot], tier: T1, plan: validate, timng: now", "timng", "did you mean timing?"),
        ("a: kinds: [hot], tier: T1, plan: validate, timing: soon", "timing", "at-checkpoint"),
        ("a: kinds: [xid], codes: ['9-7'], tier: T1, plan: validate", "codes", "no span of codes"),
        ("a: kinds: [hot], tier: T1", "a:", "plan: Field required"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place(tmp_path: Path, entry: str, at: str, says: str) -> None:
    found = problem(tmp_path, entry, kinds=HOT)
    path, line, column = found.split(": ")[0].rsplit(":", 2)
    assert Path(path).read_text().splitlines()[int(line) - 1][int(column) - 1 :].startswith(at)
    assert says in found


def test_a_condition_of_several_lines_is_blamed_at_its_own_line_and_column(tmp_path: Path) -> None:
    path = policy(
        tmp_path,
        """\
        version: 1
        rules:
          a:
            kinds: [xid]
            codes: [1]
            when: |
              link == 3 &&
                lnk == 4
            tier: T1
            plan: replace
            cause: abc
            why: abc
            source: abc
        """,
    )
    with pytest.raises(BadInput, match=r"a\.yaml:8:9: rules\.a\.when: undeclared reference to 'lnk'"):
        load(path)


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        ("{hot: {facts: {kind: string}}}", "kind is a fact of every kind"),
        ("{hot: {facts: {a: float}}}", "kinds.hot.facts.a"),
        (
            "{hot: {facts: {a: int}, samples: [{a: x}]}}",
            ":2:43: kinds.hot.samples.0.a: should be of type int",
        ),
        ("{hot: {samples: [{b: 1}]}}", "is no fact of this kind"),
        ("{xid: {facts: {link: string}}}", "is int in another file"),
    ],
)
def test_a_wrong_kind_is_refused(tmp_path: Path, kinds: str, says: str) -> None:
    assert says in problem(tmp_path, "a: kinds: [xid], codes: [1], tier: T1, plan: record", kinds=kinds)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    entries = [f"{name}: kinds: [xid], codes: [1], tier: T9, plan: record" for name in "abc"]
    assert len(problem(tmp_path, *entries).splitlines()) == 3


def test_a_name_in_two_files_is_refused_with_both(tmp_path: Path) -> None:
    text = f"version: 1\nrules: {{a: {{kinds: [xid], codes: [1], tier: T1, plan: record, {REST}}}}}"
    first, second = policy(tmp_path, text, "1.yaml"), policy(tmp_path, text, "2.yaml")
    with pytest.raises(BadInput) as caught:
        load(tmp_path)
    assert f"{second}:2:9" in str(caught.value)
    assert f"stands in {first} as well" in str(caught.value)


@pytest.mark.parametrize(
    ("other", "contradicts"),
    [
        ("kinds: [xid], codes: [7, 8], tier: T1, plan: record", True),
        ("kinds: [xid], codes: [7], tier: T0, plan: replace", True),
        ("kinds: [xid], codes: [7], tier: T1, plan: replace, timing: at-job-end", True),
        ("kinds: [xid], codes: [7], tier: T1, plan: replace", False),
        ("kinds: [xid], codes: [7], tier: T1, plan: record, over: [a]", False),
        ("kinds: [xid], codes: [7], tier: T1, plan: record, when: caused_by_xid == 79", False),
        ("kinds: [xid], codes: [8], tier: T1, plan: record", False),
    ],
)
def test_rules_that_want_different_things_of_one_signal_need_an_order(
    tmp_path: Path, other: str, contradicts: bool
) -> None:
    samples = "{xid: {samples: [{code: 45, caused_by_xid: 79}, {code: 7}]}}"
    entries = ["a: kinds: [xid], codes: [7], tier: T1, plan: replace", f"b: {other}"]
    if "when" in other:
        entries[1] = entries[1].replace("codes: [7]", "codes: [7, 45]")
    if contradicts:
        assert "contradicts a about xid 7" in problem(tmp_path, *entries, kinds=samples)
    else:
        assert rules(tmp_path, *entries, kinds=samples).rules.keys() == {"a", "b"}


def test_an_order_in_a_circle_is_refused(tmp_path: Path) -> None:
    one = "a: kinds: [xid], codes: [7], tier: T1, plan: replace, over: [b]"
    other = "b: kinds: [xid], codes: [7], tier: T1, plan: record, over: [a]"
    assert "in a circle" in problem(tmp_path, one, other)


def test_the_rule_that_goes_over_the_others_has_the_word_wherever_it_stands(tmp_path: Path) -> None:
    entries = [
        "low: kinds: [xid], codes: [7], tier: T1, plan: replace",
        "high: kinds: [xid], codes: [7], tier: T1, plan: record, over: [middle]",
        "middle: kinds: [xid], codes: [7], tier: T0, plan: replace, over: [low]",
    ]
    for index in range(3):
        found = rules(tmp_path, *entries[index:], *entries[:index]).find(xid(7))
        assert found is not None
        assert found[0] == "high"


def says(found: Rules, **extra: Any) -> str:
    return decide(xid(7, **extra), machine(), found, FREE).reason


def test_what_a_condition_cannot_tell_never_acts_unless_a_rule_over_it_speaks(tmp_path: Path) -> None:
    acts = "acts: kinds: [xid], codes: [7], tier: T0, plan: replace"
    spares = "spares: kinds: [xid], codes: [7], tier: T1, plan: record, over: [acts], when: link == 3"
    found = rules(tmp_path, acts, spares, kinds="{xid: {samples: [{link: 3}]}}")
    assert [says(found, link=link) for link in (3, 4, None, "3", True, 2**70)] == [
        "rule", "rule", *["condition-unknown"] * 4
    ]  # fmt: skip
    assert decide(xid(7, link=4), machine(), found, FREE).action == "act"
    assert decide(xid(7, link=3), machine(), found, FREE).action == "record"


def test_a_contradiction_that_no_sample_shows_is_recorded_and_never_acts(tmp_path: Path) -> None:
    one = "a: kinds: [xid], codes: [7, 8], tier: T1, plan: replace, when: link > 5"
    other = "b: kinds: [xid], codes: [7, 9], tier: T1, plan: record, when: link < 8"
    found = rules(tmp_path, one, other, kinds="{xid: {samples: [{code: 8, link: 9}, {code: 9, link: 0}]}}")
    assert [says(found, link=link) for link in (2, 6, 9)] == ["rule", "rules-contradict", "rule"]
    decision = decide(xid(7, link=6), machine(), found, FREE)
    assert decision.action == "record"
    assert "rules a and b contradict each other about xid 7" in decision.sentence


def test_a_condition_may_ask_for_the_pool(tmp_path: Path) -> None:
    entry = "a: kinds: [xid], codes: [7], tier: T1, plan: replace, when: pool == 'gpu' && pool_size > 4"
    found = rules(tmp_path, entry)
    assert decide(xid(7), machine(), found, FREE).action == "act"
    assert decide(xid(7), machine(pool="other"), found, FREE).action == "record"


def test_a_condition_may_ask_for_a_label_of_the_node(tmp_path: Path) -> None:
    when = "node_labels['nvidia.com/gpu.product'].contains('H100')"
    entry = f'a: kinds: [xid], codes: [7], tier: T1, plan: replace, when: "{when}"'
    found = rules(tmp_path, entry)
    key = "nvidia.com/gpu.product"
    says = [
        decide(xid(7), machine(labels=labels), found, FREE).reason
        for labels in ({key: "NVIDIA-H100"}, {key: "NVIDIA-A100"}, {})
    ]
    assert says == ["rule", "no-rule", "condition-unknown"]


BASE = (
    "a: kinds: [xid], codes: [7], tier: T1, plan: replace, when: link == 4",
    "b: kinds: [xid], codes: [8], tier: T1, plan: replace, over: [a]",
)
LINKS = "{xid: {samples: [{link: 4}]}}"


def test_an_overlay_changes_fields_takes_defaults_adds_and_removes(tmp_path: Path) -> None:
    added = f"{{kinds: [xid], codes: [9], tier: T1, plan: record, {REST}}}"
    overlay = f"rules: {{a: {{plan: record, when: null}}, a2: {added}, b: null}}"
    found = rules(tmp_path, *BASE, kinds=LINKS, overlay=overlay)
    assert list(found.rules) == ["a", "a2"]
    assert (found.rules["a"].plan, found.rules["a"].when, found.rules["a"].codes) == ("record", "", (7,))
    assert found.digest != rules(tmp_path, *BASE, kinds=LINKS).digest


def test_a_rule_may_go_over_one_that_an_overlay_has_removed(tmp_path: Path) -> None:
    assert list(rules(tmp_path, *BASE, kinds=LINKS, overlay="rules: {a: null}").rules) == ["b"]


@pytest.mark.parametrize(
    ("overlay", "says"),
    [
        ("rules: {c: null}", "over.yml:2:9: rules.c: is no rule, so it cannot be removed"),
        ("rules: {a: {plan: explode}}", "over.yml:2:13: rules.a.plan"),
        ("rules: {a: {pln: record}}", "over.yml:2:13: rules.a.pln: no such field; did you mean plan?"),
        ("rules: {a: {when: lnk == 4}}", "over.yml:2:19: rules.a.when: undeclared"),
        ("rules: {a: {plan: null}}", "rules.a.plan: Field required"),
        ("rules: {a: {kinds: [xid]}, c: {tier: T0}}", "over.yml:2:28: rules.c.kinds: Field required"),
        (
            "rules: {aa: {tier: T0}}",
            "over.yml:2:9: rules.aa.kinds: Field required; did you mean to change a?",
        ),
    ],
)
def test_an_overlay_is_blamed_for_what_it_breaks(tmp_path: Path, overlay: str, says: str) -> None:
    assert says in problem(tmp_path, *BASE, kinds=LINKS, overlay=overlay)


def test_a_folder_of_overlays_is_read_without_what_kubernetes_hides_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    policy(folder, "version: 1\nrules: {gpu-off-the-bus: {plan: record}}")
    policy(folder, "nonsense", ".hidden.yaml")
    assert load(overlay=folder).rules["gpu-off-the-bus"].plan == "record"
    policy(folder, "version: 1\nrules: {gpu-off-the-bus: {tier: T1}}", "b.yaml")
    with pytest.raises(BadInput, match=r"b\.yaml:2:9.*stands in .*a\.yaml as well"):
        load(overlay=folder)


@pytest.mark.parametrize("file", sorted(BUILTIN.glob("**/*.yaml")), ids=lambda file: str(file.name))
def test_no_text_of_the_service_is_cut_by_a_comment(file: Path) -> None:
    """YAML takes ` #1174` behind a plain text for a comment."""
    lines = [line for line in file.read_text().splitlines() if re.search(r" #\w", line)]
    assert [line for line in lines if not re.search(r"""["'].* #.*["']""", line)] == []


def test_an_empty_folder_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no \*\.yaml file is in it"):
        load(tmp_path)


def test_a_plan_that_waits_for_jobs_never_becomes_one_that_moves_them(tmp_path: Path) -> None:
    found = rules(tmp_path, "a: kinds: [xid], codes: [7], tier: T1, plan: validate")
    plans = {
        stage: decide(xid(7), machine(stage=stage), found, FREE).plan
        for stage in ("drain-only", "move-jobs", "full")
    }
    assert plans == {"drain-only": "validate-only", "move-jobs": "validate-only", "full": "validate"}


def test_the_timing_of_a_rule_reaches_its_decision(tmp_path: Path) -> None:
    found = rules(tmp_path, "a: kinds: [xid], codes: [7], tier: T1, plan: replace, timing: at-checkpoint")
    assert decide(xid(7), Machine.model_validate(machine()), found, FREE).timing == "at-checkpoint"
