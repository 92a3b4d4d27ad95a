"""A strike: one run of a job crashed on one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strike:
    """`run` and `machine` are keys, `node` is the machine's name; `job` and `work` as in JobEnd."""

    run: str
    job: str
    work: str
    machine: str
    node: str
    at: float
    evidence: str
