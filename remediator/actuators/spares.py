"""Spare nodes: the driver for nodes that stand ready behind a taint, and the guard in front of it."""

from __future__ import annotations

from collections.abc import Mapping

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import Offers, SparePool, Unfit, Written
from remediator.clock import Clock
from remediator.errors import Retry
from remediator.guard import Guard
from remediator.kube import paths, spare
from remediator.kube.deadline import Deadline
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.patch import Builder, NodeWriter
from remediator.kube.session import Api
from remediator.kube.spare import SpareKeys
from remediator.model.incident import Incident


class LabelledSpares:
    """The SparePool port over nodes that carry the spare label and taint."""

    def __init__(self, api: Api, clock: Clock, keys: SpareKeys) -> None:
        self._api = api
        self._clock = clock
        self._keys = keys
        self._nodes = NodeWriter(api, clock)
        self._cluster = KubeCluster(api, clock)

    def offers(self, pool: Mapping[str, str], like: Mapping[str, str], *, deadline: float) -> Offers:
        """All spares of the pool, judged now; see the port."""
        until = Deadline(deadline, self._clock)
        wanted = {**pool, self._keys.spare: self._keys.value}
        selector = {"labelSelector": ",".join(f"{key}={value}" for key, value in wanted.items())}
        listing = self._api.list(paths.NODES, params=selector, deadline=until.left())
        nodes = [node for node in map(parse_node, listing.items) if node is not None]
        if len(nodes) != len(listing.items):
            raise Retry("list spares: the answer holds something that is no node")
        problems = {node.name: self._problem(node, until) for node in nodes}
        usable = [node for node in nodes if not problems[node.name]]
        leaf = like.get(self._keys.leaf)
        usable.sort(key=lambda node: (leaf is None or node.labels.get(self._keys.leaf) != leaf, node.name))
        return Offers(tuple(usable), tuple(sorted(filter(None, problems.values()))))

    def claim(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Annotate the spare; see the port."""
        until = Deadline(deadline, self._clock)
        self._refuse_gpu_pods(node, until)
        return self._apply(node, uid, lambda view: spare.claim_patch(view, self._keys, incident), until)

    def release(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Undo this incident's claim."""
        until = Deadline(deadline, self._clock)
        return self._apply(node, uid, lambda view: spare.release_patch(view, incident), until)

    def retire(self, node: str, uid: str, incident: str, reason: str, *, deadline: float) -> Written:
        """Annotate the spare with why nobody shall take it; see the port."""
        until = Deadline(deadline, self._clock)
        return self._apply(
            node, uid, lambda view: spare.retire_patch(view, self._keys, incident, reason), until
        )

    def admit(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Swap the taints in one PATCH; see the port. A GPU pod on it is Unfit, but only before."""
        until = Deadline(deadline, self._clock)
        view = self._nodes.read(node, deadline=until.left())
        if view is not None and not spare.is_admitted(view, self._keys, incident):
            self._refuse_gpu_pods(node, until)
        return self._apply(node, uid, lambda view: spare.admit_patch(view, self._keys, incident), until)

    def detach(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Swap the sick node's worker taint for our own; see the port."""
        until = Deadline(deadline, self._clock)
        return self._apply(node, uid, lambda view: spare.detach_patch(view, self._keys, incident), until)

    def attach(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Undo this incident's detach."""
        until = Deadline(deadline, self._clock)
        return self._apply(node, uid, lambda view: spare.attach_patch(view, incident), until)

    def _apply(self, node: str, uid: str, build: Builder, until: Deadline) -> Written:
        return self._nodes.apply(node, uid, build, deadline=until.left())

    def _problem(self, node: NodeView, until: Deadline) -> str:
        problem = spare.unfit(node, self._keys)
        return problem or self._gpu_pod(node.name, until)

    def _refuse_gpu_pods(self, node: str, until: Deadline) -> None:
        problem = self._gpu_pod(node, until)
        if problem:
            raise Unfit(problem)

    def _gpu_pod(self, node: str, until: Deadline) -> str:
        pods = self._cluster.pods_on(node, deadline=until.left())
        holders = sorted(pod.key for pod in pods if pod.holds_gpus)
        return f"pod {holders[0]} holds GPUs of {node}" if holders else ""


class Spares:
    """What workflow steps may ask of the spare pool: every call asks for its deadline before it leaves."""

    def __init__(self, pool: SparePool, guard: Guard) -> None:
        self._pool = pool
        self._guard = guard

    def offers(self, pool: Mapping[str, str], like: Mapping[str, str]) -> Offers:
        """Spares of a pool (its node labels), those behind the sick node's leaf first."""
        return self._pool.offers(pool, like, deadline=self._guard.call("read the spares"))

    def claim(self, node: NodeView, incident: Incident) -> Written:
        """Show on the spare that it is this incident's."""
        deadline = self._guard.call(f"claim {node.name}")
        return self._pool.claim(node.name, node.uid, incident.id, deadline=deadline)

    def release(self, node: NodeView, incident: Incident) -> Written:
        """Undo the claim."""
        deadline = self._guard.call(f"release {node.name}")
        return self._pool.release(node.name, node.uid, incident.id, deadline=deadline)

    def retire(self, node: NodeView, incident: Incident, reason: str) -> Written:
        """Put the incident's spare aside."""
        deadline = self._guard.call(f"retire {node.name}")
        return self._pool.retire(node.name, node.uid, incident.id, reason, deadline=deadline)

    def admit(self, node: NodeView, incident: Incident) -> Written:
        """Let workers onto the incident's spare."""
        deadline = self._guard.call(f"admit {node.name}")
        return self._pool.admit(node.name, node.uid, incident.id, deadline=deadline)

    def detach(self, incident: Incident) -> Written:
        """Keep workers off the incident's machine for good."""
        deadline = self._guard.call(f"detach {incident.node}")
        return self._pool.detach(incident.node, incident.node_uid, incident.id, deadline=deadline)

    def attach(self, incident: Incident) -> Written:
        """Undo the detaching."""
        deadline = self._guard.call(f"attach {incident.node}")
        return self._pool.attach(incident.node, incident.node_uid, incident.id, deadline=deadline)
