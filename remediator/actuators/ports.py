"""What the workflow may ask of the training cluster; drivers and fakes implement it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remediator.kube.eviction import Removal
from remediator.kube.nodes import NodeView
from remediator.kube.patch import IdentityChanged, Written
from remediator.kube.pods import PodView
from remediator.kube.spare import Unfit

__all__ = ["Cluster", "IdentityChanged", "Offers", "Removal", "SparePool", "Unfit", "Written"]


class Cluster(Protocol):
    """Nodes and pods of the training cluster. `deadline` is in seconds and covers the whole call."""

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """Read all pods bound to a node now, finished ones too."""

    def worker(self, slurm_node: str, *, deadline: float) -> PodView | None:
        """The pod that is this Slurm node, wherever it is; one that stays before one that leaves."""

    def rollout(self, pods: Sequence[PodView], *, deadline: float) -> str:
        """The NodeSet ("namespace/name") of one of these pods whose pods slurm-operator is replacing now;
        empty when there is none.
        """

    def fence(self, seen: NodeView, incident: str, reason: str, *, cordon: bool, deadline: float) -> Written:
        """Taint, and cordon if asked (also later), the node exactly as it was judged; done already is done.
        Blocked when another incident holds it or a person undid it; Conflict: it has changed since, judge it
        again; IdentityChanged: it is gone; Ambiguous: read again.
        """

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Take back exactly what `fence` of this incident set and is still there."""

    def evict(self, pod: PodView, *, deadline: float) -> Removal:
        """Evict the pod in exactly the version that was judged; gone already is done. Blocked names the
        disruption budget; Conflict: it changed since, judge it again; Retry(after): throttled.
        """


@dataclass(frozen=True)
class Offers:
    """Spares that can be taken, best first, and a sentence about each one that cannot."""

    usable: tuple[NodeView, ...]
    refused: tuple[str, ...] = ()


class SparePool(Protocol):
    """Spare nodes of a pool. Which incident has which spare is a row in the store; a driver shows it to
    people. Everything done already is done; IdentityChanged when `uid` is no longer this node's.
    """

    def offers(self, pool: Mapping[str, str], like: Mapping[str, str], *, deadline: float) -> Offers:
        """Spares with all labels of `pool`; those behind the same leaf as the labels `like` come first."""

    def is_claimed(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether the spare shows that it is this incident's."""

    def is_admitted(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether this incident let workers onto the spare, and it still stands."""

    def is_detached(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether this incident keeps workers off the node for good."""

    def claim(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Show on the spare whose it is. Unfit (take another one) when it is another incident's, is gone
        or holds a GPU pod.
        """

    def release(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Undo this incident's claim."""

    def retire(self, node: str, uid: str, incident: str, reason: str, *, deadline: float) -> Written:
        """Put this incident's spare aside with the reason; workers stay off, nobody takes it."""

    def admit(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Let workers, and only them, onto this incident's spare: one PATCH. Unfit as for `claim`."""

    def detach(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Keep workers off the fenced sick node for good; Blocked unless this incident's fence stands."""

    def attach(
        self, node: str, uid: str, incident: str, *, as_spare: bool = False, deadline: float
    ) -> Written:
        """Take back exactly what `detach` of this incident did and is still there, or make a spare of it."""
