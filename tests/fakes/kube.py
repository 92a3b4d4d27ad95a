"""A training cluster in memory, for tests that crash by the thousand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from remediator.actuators.acceptance import PodBench
from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import Offers, Removal, Written
from remediator.actuators.spares import LabelledSpares
from remediator.clock import Clock, ManualClock
from remediator.kube import paths
from remediator.kube.acceptance import TestPod
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.spare import SpareKeys
from tests.fakes.kube_api import FakeApi, Hook, Write, merge, nothing
from tests.fakes.views import Parsed

__all__ = ["FakeApi", "FakeCluster", "FakeSpares", "Hook", "Write", "merge", "nothing"]
T = TypeVar("T")


class FakeCluster:
    """The Cluster port: the real driver over a FakeApi, and a hand to play everybody else.

    `before(op)` and `after(op)` see port calls ("node", "pods_on", "worker", "fence", "unfence", "evict";
    of `spares` "offers", "claim", "release", "retire", "admit", "detach", "attach") and each API request
    ("get nodes/gpu-0", "create namespaces/slurm/pods/w-0/eviction"); what they raise is what the caller gets.
    Kubelets live unless killed: an evicted pod is gone at once.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.before: Hook = nothing
        self.after: Hook = nothing
        clock = clock or ManualClock()
        self.api = FakeApi(before=self._before, after=self._after, clock=clock)
        self._driver = KubeCluster(self.api, clock)
        self.spares = FakeSpares(LabelledSpares(self.api, clock, SpareKeys()), self.hooked)
        self.bench = PodBench(self.api, clock, TestPod("localhost/test:1", namespace="slurm"))
        self._uids = itertools.count(1)
        self._nodes = Parsed(parse_node)
        self._pods = Parsed(parse_pod)

    @property
    def writes(self) -> list[Write]:
        """Accepted writes by us and by others, oldest first."""
        return self.api.writes

    def ours(self, node: str) -> list[Write]:
        """Accepted writes by us to one node, or to one pod ("namespace/name")."""
        return [write for write in self.writes if write.node == node and write.actor == "remediator"]

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """See the port."""
        return self.hooked("node", lambda: self._driver.node(name, deadline=deadline))

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """See the port."""
        return self.hooked("pods_on", lambda: self._driver.pods_on(node, deadline=deadline))

    def worker(self, slurm_node: str, *, deadline: float) -> PodView | None:
        """See the port."""
        return self.hooked("worker", lambda: self._driver.worker(slurm_node, deadline=deadline))

    def rollout(self, pods: Sequence[PodView], *, deadline: float) -> str:
        """See the port."""
        return self.hooked("rollout", lambda: self._driver.rollout(pods, deadline=deadline))

    def fence(self, seen: NodeView, incident: str, reason: str, *, cordon: bool, deadline: float) -> Written:
        """See the port."""
        return self.hooked(
            "fence",
            lambda: self._driver.fence(seen, incident, reason, cordon=cordon, deadline=deadline),
        )

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """See the port."""
        return self.hooked("unfence", lambda: self._driver.unfence(node, uid, incident, deadline=deadline))

    def evict(self, pod: PodView, *, deadline: float) -> Removal:
        """See the port."""
        return self.hooked("evict", lambda: self._driver.evict(pod, deadline=deadline))

    def add_node(
        self,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        taints: tuple[str, ...] = (),
        gpus: int = 8,
        boot_id: str = "",
        provider_id: str = "",
    ) -> str:
        """A Ready node; its uid. The same name again is another machine under that name."""
        uid = f"uid-{name}-{next(self._uids)}"
        amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        self.api.put(
            paths.node(name),
            {
                "metadata": {"name": name, "uid": uid, "labels": labels or {}},
                "spec": {
                    "providerID": provider_id or f"fake://{uid}",
                    "taints": [{"key": key, "value": "true", "effect": "NoSchedule"} for key in taints],
                },
                "status": {
                    "nodeInfo": {"bootID": boot_id or f"boot-{uid}"},
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        return uid

    def add_spare(self, name: str, pool: Mapping[str, str], **labels: str) -> str:
        """A spare of the pool with these labels; its uid."""
        keys = SpareKeys()
        marks = {**pool, keys.spare: keys.value, **labels}
        return self.add_node(name, labels=marks, taints=(keys.spare,))

    def remove_node(self, name: str) -> None:
        """The node object is deleted from outside."""
        del self.api.objects[paths.node(name)]

    def reboot(self, name: str, boot_id: str) -> None:
        """The node comes back with a new boot id."""
        self.outside(name, "reboot", {"status": {"nodeInfo": {"bootID": boot_id}}})

    def cordon(self, name: str, *, by: str = "admin") -> None:
        """Somebody else cordons."""
        self.outside(name, "cordon", {"spec": {"unschedulable": True}}, by)

    def uncordon(self, name: str, *, by: str = "admin") -> None:
        """Somebody else uncordons."""
        self.outside(name, "uncordon", {"spec": {"unschedulable": None}}, by)

    def set_taints(self, name: str, taints: list[dict[str, Any]], *, by: str = "admin") -> None:
        """Somebody else writes the whole taint list."""
        self.outside(name, "taint", {"spec": {"taints": taints or None}}, by)

    def annotate(self, name: str, annotations: dict[str, str | None], *, by: str = "admin") -> None:
        """Somebody else sets (or with None removes) annotations."""
        self.outside(name, "annotate", {"metadata": {"annotations": annotations}}, by)

    def add_pod(
        self,
        namespace: str,
        name: str,
        node: str,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        phase: str = "Running",
        owner: str = "",
        gpus: int = 0,
        finalizers: Sequence[str] = (),
        hostname: str = "",
        nodeset: str = "",
    ) -> str:
        """A pod on a node, of this NodeSet if one is named; its uid."""
        uid = f"uid-{name}-{next(self._uids)}"
        self.api.put(
            paths.pod(namespace, name),
            {
                "metadata": {
                    "namespace": namespace,
                    "name": name,
                    "uid": uid,
                    "labels": labels or {},
                    "annotations": annotations or {},
                    "ownerReferences": [
                        *([{"kind": owner}] if owner else []),
                        *([{"kind": "NodeSet", "name": nodeset, "uid": f"uid-{nodeset}"}] if nodeset else []),
                    ],
                    "finalizers": list(finalizers),
                },
                "spec": {
                    "nodeName": node,
                    "hostname": hostname or name,
                    "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}] if gpus else [],
                },
                "status": {"phase": phase},
            },
        )
        return uid

    def set_nodeset(self, name: str, revision: str, strategy: str = "RollingUpdate") -> None:
        """A NodeSet in namespace slurm whose pods are to be of this revision."""
        spec, status = {"updateStrategy": {"type": strategy}}, {"nodeSetHash": revision}
        meta = {"namespace": "slurm", "name": name, "uid": f"uid-{name}", "labels": {}}
        self.api.put(paths.nodeset("slurm", name), {"metadata": meta, "spec": spec, "status": status})

    def remove_pod(self, namespace: str, name: str) -> None:
        """The pod is gone."""
        del self.api.objects[paths.pod(namespace, name)]

    def pod(self, namespace: str, name: str) -> PodView | None:
        """The pod as it is, past all hooks."""
        path = paths.pod(namespace, name)
        raw = self.api.objects.get(path)
        return None if raw is None else self._pods.of(path, raw)

    def pods(self) -> list[PodView]:
        """All pods as they are, past all hooks."""
        found = self.api.objects.items()
        return [self._pods.of(path, raw) for path, raw in found if path.rsplit("/", 2)[1] == "pods"]

    def change_pod(self, namespace: str, name: str, patch: Json) -> None:
        """Somebody else patches the pod (labels, phase, finalizers)."""
        path = paths.pod(namespace, name)
        new = merge(self.api.objects[path], patch)
        self.api.put(path, new)
        if new["metadata"].get("deletionGracePeriodSeconds") == 0:
            self.api.kubelet_ends(path)

    def protect_pod(self, namespace: str, name: str, *budgets: str) -> None:
        """The named disruption budgets forbid its eviction; none lifts that."""
        self.api.budgets[paths.pod(namespace, name)] = list(budgets)

    def kill_kubelet(self, node: str) -> None:
        """Deleted pods of this node stay Terminating."""
        self.api.dead_kubelets.add(node)

    def revive_kubelet(self, node: str) -> None:
        """The kubelet is back and ends what was deleted meanwhile."""
        self.api.dead_kubelets.discard(node)
        mine = [path for path, obj in self.api.objects.items() if obj["spec"].get("nodeName") == node]
        for path in mine:
            self.api.kubelet_ends(path)

    def view(self, name: str) -> NodeView:
        """The node as it is, past all hooks."""
        path = paths.node(name)
        return self._nodes.of(path, self.api.objects[path])

    def outside(self, name: str, op: str, patch: Json, by: str = "kubelet") -> None:
        """Somebody else patches the node."""
        path = paths.node(name)
        new = merge(self.api.objects[path], patch)
        if new != self.api.objects[path]:  # as on a real server, a patch that changes nothing is no write
            self.api.put(path, new)
            self.writes.append(Write(op, name, by))

    def _before(self, op: str) -> None:
        self.before(op)

    def _after(self, op: str) -> None:
        self.after(op)

    def hooked(self, op: str, act: Callable[[], T]) -> T:
        """A port call between the hooks."""
        self.before(op)
        answer = act()
        self.after(op)
        return answer


class FakeSpares:
    """The SparePool port: the real driver between the cluster's hooks; plain reads have the API's only."""

    def __init__(self, driver: LabelledSpares, hooked: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._driver = driver
        self._hooked = hooked

    def offers(self, pool: Mapping[str, str], like: Mapping[str, str], *, deadline: float) -> Offers:
        """See the port."""
        offers: Offers = self._hooked("offers", lambda: self._driver.offers(pool, like, deadline=deadline))
        return offers

    def is_claimed(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """See the port."""
        return self._driver.is_claimed(node, uid, incident, deadline=deadline)

    def is_admitted(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """See the port."""
        return self._driver.is_admitted(node, uid, incident, deadline=deadline)

    def is_detached(self, node: str, uid: str, incident: str, *, deadline: float) -> bool:
        """See the port."""
        return self._driver.is_detached(node, uid, incident, deadline=deadline)

    def claim(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """See the port."""
        return self._write("claim", lambda: self._driver.claim(node, uid, incident, deadline=deadline))

    def release(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """See the port."""
        return self._write("release", lambda: self._driver.release(node, uid, incident, deadline=deadline))

    def retire(self, node: str, uid: str, incident: str, reason: str, *, deadline: float) -> Written:
        """See the port."""
        return self._write(
            "retire", lambda: self._driver.retire(node, uid, incident, reason, deadline=deadline)
        )

    def admit(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """See the port."""
        return self._write("admit", lambda: self._driver.admit(node, uid, incident, deadline=deadline))

    def detach(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """See the port."""
        return self._write("detach", lambda: self._driver.detach(node, uid, incident, deadline=deadline))

    def attach(
        self, node: str, uid: str, incident: str, *, as_spare: bool = False, deadline: float
    ) -> Written:
        """See the port."""
        return self._write(
            "attach",
            lambda: self._driver.attach(node, uid, incident, as_spare=as_spare, deadline=deadline),
        )

    def _write(self, op: str, act: Callable[[], Written]) -> Written:
        written: Written = self._hooked(op, act)
        return written
