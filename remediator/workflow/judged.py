"""What was looked at before a machine is touched, also while its INTENT was being committed."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.policy.vetoes import Veto
from slurm_bridge.model import SlurmNode

FRESH_S = 0.5  # a slower commit is followed by a look of its own
Nodes = tuple[SlurmNode, ...]


@dataclass(frozen=True)
class Judged:
    """The very versions of a machine and its pods that were looked at, and what forbids touching them."""

    node: NodeView
    pods: tuple[PodView, ...]
    veto: Veto | None


class Early:
    """Slurm nodes that are asked for while the INTENT about them is being committed; good once, and only
    while they are fresh. `now`: when they were asked for.
    """

    def __init__(self, asked: Future[Nodes], now: float) -> None:
        self._asked: Future[Nodes] | None = asked
        self._now = now

    def take(self, now: float) -> Nodes | None:
        """The nodes, or None when they have to be read now: whatever failed is asked again and says why."""
        asked, self._asked = self._asked, None
        if asked is None or asked.cancel() or now - self._now > FRESH_S or asked.exception() is not None:
            return None
        return asked.result()
