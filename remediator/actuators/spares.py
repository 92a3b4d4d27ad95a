"""Spare nodes: the driver for nodes that stand ready behind a taint, and the guard in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import IdentityChanged, Offers, SparePool, Unfit, Written
from remediator.clock import Clock
from remediator.errors import Retry
from remediator.guard import Guard
from remediator.kube import paths, spare
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.patch import Builder, NodeWriter
from remediator.kube.session import Api
from remediator.kube.spare import SpareKeys
from remediator.model.incident import Incident
from remediator.model.spare import Spare


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

    def is_claimed(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether the spare is annotated for this incident."""
        return spare.is_claimed(self._nodes.same(node, uid, deadline=deadline), incident)

    def is_admitted(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether the taints are swapped for this incident."""
        return spare.is_admitted(self._nodes.same(node, uid, deadline=deadline), self._keys, incident)

    def is_detached(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """Whether our taint of this incident is on the node."""
        return spare.is_detached(self._nodes.same(node, uid, deadline=deadline), incident)

    def claim(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Annotate the spare; see the port."""
        until = Deadline(deadline, self._clock)
        with _another():
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
        with _another():
            if not self.is_admitted(node, uid, incident, deadline=until.left()):
                self._refuse_gpu_pods(node, until)
            return self._apply(node, uid, lambda view: spare.admit_patch(view, self._keys, incident), until)

    def detach(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Swap the sick node's worker taint for our own; see the port."""
        until = Deadline(deadline, self._clock)
        return self._apply(node, uid, lambda view: spare.detach_patch(view, self._keys, incident), until)

    def attach(
        self, node: str, uid: str, incident: str, *, as_spare: bool = False, deadline: float
    ) -> Written:
        """Undo this incident's detach, or make a spare of the node."""
        until = Deadline(deadline, self._clock)

        def build(view: NodeView) -> Json | None:
            if as_spare:
                return spare.spare_patch(view, self._keys, incident)
            return spare.attach_patch(view, incident)

        return self._apply(node, uid, build, until)

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


@contextmanager
def _another() -> Iterator[None]:
    """A spare that is gone or another machine by now is Unfit: the next one is taken."""
    try:
        yield
    except IdentityChanged as error:
        raise Unfit(str(error)) from error


class Spares:
    """What workflow steps may ask of the spare pool: every call asks for its deadline before it leaves."""

    def __init__(self, pool: SparePool, guard: Guard) -> None:
        self._pool = pool
        self._guard = guard

    def offers(self, pool: Mapping[str, str], like: Mapping[str, str]) -> Offers:
        """Spares of a pool (its node labels), those behind the sick node's leaf first."""
        return self._pool.offers(pool, like, deadline=self._guard.call("read the spares"))

    def is_claimed(self, spare: Spare) -> bool:
        """Whether the spare shows whose it is; False when it is gone."""
        deadline = self._guard.call(f"read spare {spare.node}")
        with suppress(IdentityChanged):
            return self._pool.is_claimed(spare.node, spare.uid, spare.incident, deadline=deadline)
        return False

    def is_admitted(self, spare: Spare) -> bool:
        """Whether workers may run on the spare; False when it is gone."""
        deadline = self._guard.call(f"read spare {spare.node}")
        with suppress(IdentityChanged):
            return self._pool.is_admitted(spare.node, spare.uid, spare.incident, deadline=deadline)
        return False

    def claim(self, spare: Spare) -> None:
        """Show on the spare whose it is; Unfit: take another one, this one bears no claim of ours."""
        deadline = self._guard.write(f"claim {spare.node}", node=spare.node)
        with self._letting_go(spare):
            self._pool.claim(spare.node, spare.uid, spare.incident, deadline=deadline)

    def release(self, spare: Spare) -> None:
        """Undo the claim; on a node that is gone nothing is left to undo."""
        deadline = self._guard.write(f"release {spare.node}", node=spare.node)
        with suppress(IdentityChanged):
            self._pool.release(spare.node, spare.uid, spare.incident, deadline=deadline)

    def retire(self, spare: Spare, reason: str) -> None:
        """Put the spare aside; one that is gone is out of the way already."""
        deadline = self._guard.write(f"retire {spare.node}", node=spare.node)
        with suppress(IdentityChanged):
            self._pool.retire(spare.node, spare.uid, spare.incident, reason, deadline=deadline)

    def admit(self, spare: Spare) -> None:
        """Let workers onto the spare; Unfit: take another one, this one bears no claim of ours."""
        deadline = self._guard.write(f"admit {spare.node}", node=spare.node)
        with self._letting_go(spare):
            self._pool.admit(spare.node, spare.uid, spare.incident, deadline=deadline)

    def is_detached(self, incident: Incident) -> bool:
        """Whether workers are kept off the incident's machine for good."""
        deadline = self._guard.call(f"read node {incident.node}")
        return self._pool.is_detached(incident.node, incident.node_uid, incident.id, deadline=deadline)

    def detach(self, incident: Incident) -> None:
        """Keep workers off the incident's machine for good."""
        deadline = self._guard.write(f"detach {incident.node}", node=incident.node)
        self._pool.detach(incident.node, incident.node_uid, incident.id, deadline=deadline)

    def attach(self, incident: Incident, *, as_spare: bool = False) -> None:
        """Undo the detaching, or make a spare of the machine."""
        deadline = self._guard.write(f"attach {incident.node}", node=incident.node)
        self._pool.attach(incident.node, incident.node_uid, incident.id, as_spare=as_spare, deadline=deadline)

    @contextmanager
    def _letting_go(self, spare: Spare) -> Iterator[None]:
        try:
            yield
        except Unfit:
            self.release(spare)
            raise
