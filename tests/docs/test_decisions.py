"""Decisions are cited by their number, so each has its own."""

from __future__ import annotations

from pathlib import Path

DECISIONS = sorted(Path(__file__).parents[2].glob("runbooks/decisions/*.md"))


def test_decisions_are_numbered_one_by_one_and_say_their_number() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    for page in DECISIONS:
        assert page.read_text().startswith(f"# {page.name[:4]}: ")
