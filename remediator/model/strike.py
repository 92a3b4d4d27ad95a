"""A strike: one run of a job crashed on one machine."""

from __future__ import annotations

from dataclasses import dataclass

EXAMINED = "forensics"
"""What the evidence of a strike begins with that its links' and GPUs' readings are."""


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

    @property
    def is_examined(self) -> bool:
        """Whether readings of the machine's links and GPUs stand out for this crash, and not just its job."""
        return self.evidence.startswith(f"{EXAMINED}:")
