"""Whatever an incident can be held or stuck in has its place in runbooks/stuck.md, with what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from remediator.model.incident import State
from remediator.workflow.step import Step
from remediator.workflow.steps import STEPS
from tests.docs.snippets import REPO

PAGE = (REPO / "runbooks/stuck.md").read_text()
KINDS = {"Hold", "Blocked", "Cannot", "Yield", "Overridden"}
PLACES = ("remediator/workflow", "remediator/kube", "remediator/run", "remediator/guard.py", "slurm_bridge")
COMMANDS_ONLY = {"remediator/kube/readonly.py"}
"""What `plan` and `doctor` are refused; no incident meets it."""
ENDED = {"open", "closed"}


def section(title: str) -> str:
    """The text below a heading of the page, up to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"runbooks/stuck.md has no section `## {title}`"
    return found[1]


def rows(title: str) -> dict[str, list[str]]:
    """A section's table: the cells of each row by its first one."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def sentences() -> Iterator[tuple[str, str]]:
    """Every sentence that holds or ends an incident in the code, `…` for what is filled in, with its file."""
    for file in sorted(path for place in PLACES for path in files(REPO / place)):
        name = str(file.relative_to(REPO))
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KINDS:
                text = template(call.args[0])
                if re.search(r"\w", text) and name not in COMMANDS_ONLY:
                    yield text, name


def files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


def template(argument: ast.expr) -> str:
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    parts = argument.values if isinstance(argument, ast.JoinedStr) else []
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def speaks_of(phrase: str, sentence: str) -> bool:
    """Whether a phrase of the page, `…` for anything, is in the sentence."""
    chunks = [re.escape(chunk.strip()) for chunk in phrase.split("…")]
    return re.search(".*".join(chunks), sentence) is not None


def test_every_step_has_its_row_with_what_to_do() -> None:
    table = rows("By step")
    hint = (
        "runbooks/stuck.md, `By step`: one row a step, in the order of remediator/workflow/steps/__init__.py"
    )
    assert [name for name in STEPS if name not in table] == [], hint
    assert list(table) == list(STEPS), hint
    assert [name for name, cells in table.items() if len(cells) != 3 or not all(cells)] == []


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: str(step.name))
def test_the_row_of_a_step_names_its_bound(step: Step) -> None:
    row = rows("By step").get(step.name, ["no row"])
    assert row[0] == f"{step.bound_s:g} s", f"runbooks/stuck.md, `By step`: the bound of {step.name}"


@pytest.mark.parametrize("state", [*sorted(set(get_args(State)) - ENDED), "paused"])
def test_every_state_that_needs_a_person_has_its_row(state: str) -> None:
    assert all(rows("By state")[state])


@pytest.mark.parametrize(("sentence", "file"), sorted(set(sentences())))
def test_every_reason_to_hold_or_to_yield_has_its_row(sentence: str, file: str) -> None:
    phrases = [phrase for key in rows("By line") for phrase in key.split("<br>")]
    assert any(speaks_of(phrase, sentence) for phrase in phrases), (
        f"{file} says {sentence!r}: add it to the table `By line` of runbooks/stuck.md"
    )


def test_a_sentence_that_the_page_does_not_know_is_missed() -> None:
    assert speaks_of("no spare: …", "no spare: …")
    assert not speaks_of("no spare: …", "the moon is in the wrong house")
