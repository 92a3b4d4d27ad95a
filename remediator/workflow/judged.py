"""What was looked at before a machine is touched, also while the step before was read back."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.policy.vetoes import Veto

FRESH_S = 0.5  # a slower drain is followed by a look of its own


@dataclass(frozen=True)
class Judged:
    """The very versions of a machine and its pods that were looked at, and what forbids touching them."""

    node: NodeView
    pods: tuple[PodView, ...]
    veto: Veto | None


class Ahead:
    """One look, for the step that goes straight after another one; good once, and only while it is fresh."""

    def __init__(self) -> None:
        self._kept: tuple[Judged, float] | None = None

    def keep(self, found: Judged, now: float) -> None:
        """`now`: when the step that looks ahead began."""
        self._kept = (found, now)

    def take(self, now: float) -> Judged | None:
        """The look, or None when there is none that is fresh."""
        kept, self._kept = self._kept, None
        return kept[0] if kept is not None and now - kept[1] <= FRESH_S else None
