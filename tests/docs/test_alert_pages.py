"""Every alert leads to a section of a page that names a command to run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.docs.snippets import REPO

COMMAND = re.compile(r"`(kubectl|remediator|scontrol|squeue|dcgmi) ")
LINK = re.compile(r"\]\(([\w/.-]+\.md)\)")


def alerts() -> Iterator[Any]:
    for file in sorted((REPO / "deploy/rules").glob("*.yaml")):
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from (rule for rule in group["rules"] if "alert" in rule)


@pytest.mark.parametrize("rule", list(alerts()), ids=lambda rule: str(rule["alert"]))
def test_the_runbook_of_an_alert_says_what_to_run(rule: Any) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    sections = re.split(r"^## ", (REPO / page).read_text(), flags=re.MULTILINE)[1:]
    found = [text for text in sections if text.split("\n", 1)[0].lower() == anchor]
    assert len(found) == 1, f"{page} has no section for {rule['alert']}"
    assert COMMAND.search(found[0]), f"{page}#{anchor} names no command to run"


@pytest.mark.parametrize("page", sorted(REPO.glob("runbooks/*.md")), ids=lambda page: str(page.name))
def test_no_page_leads_to_one_that_is_not_there(page: Any) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).is_file()] == []
