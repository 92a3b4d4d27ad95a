"""Whatever the service warns of or refuses has its place in runbooks/errors.md, with what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from remediator.settings import Settings
from remediator.settings.problems import section_at
from remediator.store.engine import NEXT_STEPS
from tests.docs.snippets import REPO

PAGE = (REPO / "runbooks/errors.md").read_text()
PLACES = ("run", "web", "signals")
LOUD = {"warning", "error", "exception"}


def events() -> Iterator[str]:
    """The `event` of every line from a warning up that the controller's own code writes."""
    for place in PLACES:
        for file in sorted((REPO / "remediator" / place).rglob("*.py")):
            for call in ast.walk(ast.parse(file.read_text())):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                name = call.func.value
                if call.func.attr in LOUD and isinstance(name, ast.Name) and name.id == "log":
                    assert isinstance(call.args[0], ast.Constant), file
                    yield str(call.args[0].value).partition(":")[0]


@pytest.mark.parametrize("event", sorted(set(events())))
def test_every_warning_of_the_log_has_a_row(event: str) -> None:
    log = PAGE.partition("## In the log")[2].partition("## As an answer")[0]
    assert re.search(rf"^\|(?:[^|]*<br>)? ?{re.escape(event)}", log, re.MULTILINE), event


@pytest.mark.parametrize("words", NEXT_STEPS)
def test_everything_the_store_says_has_a_row(words: str) -> None:
    assert words in PAGE


def test_every_setting_it_names_exists() -> None:
    """A name in backquotes with a dot is a setting."""
    for section, field in re.findall(r"`([a-z]+)\.([a-z_]+)`", PAGE):
        model = section_at(Settings, (section,))
        assert model is not None, section
        assert field in model.model_fields, f"{section}.{field}"
