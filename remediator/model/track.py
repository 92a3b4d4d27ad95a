"""One reading of one node over time, whoever measured it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Track:
    """One series: `what` is the kind of reading, `place` the GPU, link or code on `node`, `teller` the
    exporter; samples are (second, value) in any order.
    """

    node: str
    what: str
    place: str
    samples: tuple[tuple[float, float], ...]
    teller: str = ""
