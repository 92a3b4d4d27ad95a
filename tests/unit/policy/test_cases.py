"""Every rule that comes with the service has cases, and they hold; a case that does not says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.agent.kernel_log import parse
from remediator.errors import BadInput
from remediator.policy import cases
from remediator.policy.rules import load

CASES = cases.load_cases(cases.FOLDER)


@pytest.mark.parametrize("entry", CASES, ids=[case.name for _, case in CASES])
def test_the_case_holds(entry: tuple[str, cases.Case]) -> None:
    tried = next(cases.run([entry], load(), parse))
    assert tried.differs == (), f"{tried.place}: {tried.decision}"


def test_every_rule_has_a_case() -> None:
    assert set(load().rules) <= {case.expect.rule for _, case in CASES}


def wrong(folder: Path, text: str) -> str:
    path = folder / "cases.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        list(cases.run(cases.load_cases(path), load(), parse))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("version: 1\ncases: []", "cases.yaml:2:1: cases: Tuple should have at least 1 item"),
        (
            "version: 1\ncases:\n- {name: a case, given: {kin: xid}, expect: {}}",
            ":3:26: cases.0.given.kin: Extra",
        ),
        (
            "version: 1\ncases:\n- {name: a case, given: {line: hello}, expect: {}}",
            ":3: line: no event is in it",
        ),
        ("a: [", "cases.yaml:1: cases: not valid YAML"),
    ],
)
def test_a_wrong_case_file_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    assert says in wrong(tmp_path, text)


def test_no_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        cases.load_cases(tmp_path / "none.yaml")
