"""The page about kinds of jobs says of each row what the table says."""

from __future__ import annotations

import re
from pathlib import Path

from slurm_bridge.kinds import TABLE

PAGE = Path(__file__).parents[2] / "runbooks/job-kinds.md"
ROW = re.compile(r"^\| `([a-z-]+)` \|[^|]*\| ([^|]+) \|", re.MULTILINE)


def test_every_kind_has_its_row_in_the_tables_order() -> None:
    assert [kind for kind, _ in ROW.findall(PAGE.read_text())] == [row.release.kind for row in TABLE]


def test_the_page_says_what_is_done() -> None:
    said = dict(ROW.findall(PAGE.read_text()))
    for row in TABLE:
        kind = row.release.kind
        assert ("requeue" in said[kind]) == (row.release.act == "requeue"), kind
        assert (said[kind] == "left alone") == row.release.keeps_the_node, kind
