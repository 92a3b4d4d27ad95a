"""The pages of runbooks/reference say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import docs
from remediator.observe.metrics import Metrics
from remediator.settings import example


@pytest.mark.parametrize("page", docs.PAGES)
def test_a_reference_page_is_up_to_date(page: str) -> None:
    assert page not in docs.stale(), f"runbooks/reference/{page} is stale: run `{docs.COMMAND}`"


def test_a_page_that_is_missing_or_changed_by_hand_is_stale_until_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "cli.md").write_text("# by hand\n")
    assert set(docs.stale(tmp_path)) == set(docs.PAGES)
    assert set(docs.write(tmp_path)) == set(docs.PAGES)
    assert docs.stale(tmp_path) == docs.write(tmp_path) == []


def test_every_setting_of_the_example_is_on_the_page() -> None:
    page = docs.PAGES["settings.md"]()
    names = {line.split(":")[0].strip() for line in example().splitlines() if ":" in line and "#" not in line}
    missing = {name for name in names if f"`{name}`" not in page and f"{name}" not in headings(page)}
    assert missing == {"gpu", "thermal"}  # the example's own pool, and a class of rules


def headings(page: str) -> set[str]:
    return {word for line in page.splitlines() if line.startswith("## ") for word in line[3:].split(".")}


def test_every_name_of_the_controller_is_on_the_page_of_metrics() -> None:
    page = docs.PAGES["metrics.md"]()
    text = Metrics().render().decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE remediator_")}
    assert {name for name in names if f"`{name}`" not in page} == set()
