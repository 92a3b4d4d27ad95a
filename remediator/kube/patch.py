"""Writing a node: patches with preconditions, sent, run again after a lost race, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from remediator.clock import Clock
from remediator.errors import Ambiguous, GiveUp, Retry
from remediator.kube import paths
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Conflict, Json
from remediator.kube.nodes import NodeView, Taint, parse_node
from remediator.kube.session import Api

ATTEMPTS = 5
Builder = Callable[[NodeView], Json | None]
Texts = Mapping[str, str | None]


class IdentityChanged(GiveUp):
    """The node is gone, or another machine bears its name now: nothing was written."""


@dataclass(frozen=True)
class Written:
    """A change that stands: the node as read back, and whether this very call wrote."""

    node: NodeView
    wrote: bool


def preconditioned(
    node: NodeView, *, annotations: Texts | None = None, labels: Texts | None = None, spec: Json | None = None
) -> Json:
    """Merge patch that only this very version of the node takes; None as a value removes the key."""
    metadata: Json = {"resourceVersion": node.resource_version, "uid": node.uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def raw_taints(taints: Iterable[Taint]) -> list[Json]:
    """Taints as they are written back: nothing of a newer server is lost."""
    return [dict(taint.raw) for taint in taints]


class NodeWriter:
    """Reads fresh, writes with the resourceVersion just read, reads back."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def read(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""
        raw = self._api.get(paths.node(name), deadline=deadline)
        if raw is None:
            return None
        view = parse_node(raw)
        if view is None or view.name != name:
            raise Retry(f"get nodes/{name}: the answer is not this node")
        return view

    def same(self, name: str, uid: str, *, deadline: float) -> NodeView:
        """Read one node now; IdentityChanged when it is gone or `uid` is no longer this node's."""
        view = self.read(name, deadline=deadline)
        if view is None or view.uid != uid:
            found = "is gone" if view is None else f"is another machine now (uid {view.uid}, not {uid})"
            raise IdentityChanged(f"node {name} {found}")
        return view

    def apply(self, name: str, uid: str, build: Builder, *, deadline: float) -> Written:
        """Send what `build` makes of the fresh node until it makes None; IdentityChanged when `uid` is
        no longer this node's. `build` is asked again for each read, and may raise.
        """
        until = Deadline(deadline, self._clock)
        for _ in range(ATTEMPTS):
            view = self.same(name, uid, deadline=until.left())
            with suppress(Conflict):
                return self.amend(view, build, deadline=until.left())
        raise Retry(f"patch nodes/{name}: {ATTEMPTS} writers were faster")

    def amend(self, seen: NodeView, build: Builder, *, deadline: float) -> Written:
        """Send what `build` makes of the node exactly as it was seen. Conflict: it has changed since, or is
        another machine now; IdentityChanged: it is gone.
        """
        until = Deadline(deadline, self._clock)
        patch = build(seen)
        if patch is None:
            return Written(seen, wrote=False)
        self._api.patch(paths.node(seen.name), patch, deadline=until.left())
        return Written(self._read_back(seen, build, until), wrote=True)

    def _read_back(self, seen: NodeView, build: Builder, until: Deadline) -> NodeView:
        try:
            view = self.same(seen.name, seen.uid, deadline=until.left())
        except Retry as error:
            raise Ambiguous(f"patch nodes/{seen.name}: accepted, but not read back ({error})") from error
        if build(view) is not None:
            raise Ambiguous(f"patch nodes/{seen.name}: accepted, but it does not show")
        return view
