"""The bench's own stand-in of the controller, in small: what it measures must be there."""

from __future__ import annotations

from pathlib import Path

from tests.bench.capacity import Size, measure


def test_a_small_storm_is_answered_stored_and_judged(tmp_path: Path) -> None:
    figures = {one.what: one for one in measure(tmp_path, lambda _what: None, Size(8, 16, 0.2))}
    memory = [one for what, one in figures.items() if what.startswith("memory per node of 8")]
    assert [one.unit for one in memory] == ["KiB", "KiB"]
    storm = "storm of 16 alerts in 0.2 s"
    assert figures[f"{storm}: until answered"].n == 16
    assert figures[f"{storm}: not stored"].p50 == 0
    assert figures[f"{storm}: not judged a minute later"].p50 == 0
