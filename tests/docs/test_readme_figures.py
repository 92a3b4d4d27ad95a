"""README's figures are those of the baseline that `make bench` compares with."""

from __future__ import annotations

import json

from tests.bench.readme import README, block, present
from tests.bench.report import BASELINE


def test_readme_shows_the_figures_of_the_baseline() -> None:
    assert present(README.read_text()) == block(json.loads(BASELINE.read_text())), (
        "run `python -m tests.bench --save-baseline`"
    )
