"""Every right value of every field case has a test that exists, or says what it waits for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[1]
REAL = ("e2e/", "contract/", "sigkill/")
"""Folders of tests on real servers."""
CASES = {
    case["id"]: case
    for case in map(json.loads, (TESTS / "data" / "field_cases.jsonl").read_text().splitlines())
}
TABLE: dict[str, dict[int, list[str | dict[str, str]]]] = yaml.safe_load(
    (TESTS / "data" / "field_case_tests.yaml").read_text()
)


def test_all_thirty_cases_are_there() -> None:
    assert list(CASES) == list(TABLE) == [f"FC-O{number:02}" for number in range(1, 31)]


@pytest.mark.parametrize("case", CASES)
def test_each_right_value_is_proven_or_says_what_it_waits_for(case: str) -> None:
    assert list(TABLE[case]) == list(range(1, len(CASES[case]["right"]) + 1))
    for proofs in TABLE[case].values():
        assert proofs
        for proof in proofs:
            if isinstance(proof, dict):
                assert list(proof) == ["later"]
            else:
                file, _, name = proof.partition("::")
                assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE), proof


@pytest.mark.parametrize("case", [case for case, row in CASES.items() if {"a", "b"} & set(row["repro"])])
def test_what_a_slurm_or_an_api_server_can_show_is_proven_on_real_ones(case: str) -> None:
    proofs = [str(proof) for found in TABLE[case].values() for proof in found]
    assert any(proof.startswith(REAL) for proof in proofs)


def test_what_the_design_decides_otherwise_is_said_beside_its_value() -> None:
    told = {case: list(row["overridden"]) for case, row in CASES.items() if "overridden" in row}
    assert told == {
        "FC-O06": ["1", "2"], "FC-O13": ["1"], "FC-O21": ["3"], "FC-O25": ["1", "4"],
    }  # fmt: skip
    for case, values in told.items():
        assert set(map(int, values)) <= set(TABLE[case])
