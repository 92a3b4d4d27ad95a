"""The Cluster port over the API server."""

from __future__ import annotations

from collections.abc import Callable

from remediator.actuators.ports import Fencing, IdentityChanged
from remediator.clock import Clock
from remediator.errors import Ambiguous, Retry
from remediator.kube import paths
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Conflict, Json
from remediator.kube.fence import fence_patch, unfence_patch
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.session import Api

ATTEMPTS = 5
Builder = Callable[[NodeView], Json | None]


class KubeCluster:
    """Reads fresh, writes with the resourceVersion just read, reads back."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""
        raw = self._api.get(paths.node(name), deadline=deadline)
        if raw is None:
            return None
        view = parse_node(raw)
        if view is None or view.name != name:
            raise Retry(f"get nodes/{name}: the answer is not this node")
        return view

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """Read all pods bound to a node now; Retry when one of them cannot be understood."""
        selector = {"fieldSelector": f"spec.nodeName={paths.name(node, 'node')}"}
        listing = self._api.list(paths.PODS, params=selector, deadline=deadline)
        pods = [parse_pod(raw) for raw in listing.items]
        understood = tuple(pod for pod in pods if pod is not None and pod.node == node)
        if len(understood) != len(pods):
            raise Retry(f"list pods on {node}: the answer holds something that is no pod of this node")
        return understood

    def fence(
        self, node: str, uid: str, incident: str, reason: str, *, cordon: bool, deadline: float
    ) -> Fencing:
        """Taint, and cordon if asked; see the port."""
        return self._apply(
            node, uid, lambda view: fence_patch(view, incident, reason, cordon=cordon), deadline
        )

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Fencing:
        """Take back what this incident's fence set; see the port."""
        return self._apply(node, uid, lambda view: unfence_patch(view, incident), deadline)

    def _apply(self, node: str, uid: str, build: Builder, deadline: float) -> Fencing:
        until = Deadline(deadline, self._clock)
        for _ in range(ATTEMPTS):
            view = self._same(node, uid, until)
            patch = build(view)
            if patch is None:
                return Fencing(view, wrote=False)
            try:
                self._api.patch(paths.node(node), patch, deadline=until.left())
            except Conflict:
                continue
            return Fencing(self._read_back(node, uid, build, until), wrote=True)
        raise Retry(f"patch nodes/{node}: {ATTEMPTS} writers were faster")

    def _same(self, node: str, uid: str, until: Deadline) -> NodeView:
        view = self.node(node, deadline=until.left())
        if view is None or view.uid != uid:
            found = "is gone" if view is None else f"is another machine now (uid {view.uid}, not {uid})"
            raise IdentityChanged(f"node {node} {found}")
        return view

    def _read_back(self, node: str, uid: str, build: Builder, until: Deadline) -> NodeView:
        try:
            view = self._same(node, uid, until)
        except Retry as error:
            raise Ambiguous(f"patch nodes/{node}: accepted, but not read back ({error})") from error
        if build(view) is not None:
            raise Ambiguous(f"patch nodes/{node}: accepted, but it does not show")
        return view
