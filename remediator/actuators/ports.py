"""What the workflow may ask of the training cluster; drivers and fakes implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from remediator.errors import GiveUp
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView


class IdentityChanged(GiveUp):
    """The node is gone, or another machine bears its name now: nothing was written."""


@dataclass(frozen=True)
class Fencing:
    """A fence or unfence that stands: the node as read back, and whether this very call wrote."""

    node: NodeView
    wrote: bool


class Cluster(Protocol):
    """Nodes and pods of the training cluster. `deadline` is in seconds and covers the whole call."""

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """Read all pods bound to a node now, finished ones too."""

    def fence(
        self, node: str, uid: str, incident: str, reason: str, *, cordon: bool, deadline: float
    ) -> Fencing:
        """Taint, and cordon if asked; done already is done. Blocked when another incident holds it or
        a person undid it; IdentityChanged when `uid` is no longer this node's; Ambiguous: read again.
        """

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Fencing:
        """Take back exactly what `fence` of this incident set and is still there."""
