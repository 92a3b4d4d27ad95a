"""An API server and a training cluster in memory, for tests that crash by the thousand."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import Fencing
from remediator.clock import Clock, ManualClock
from remediator.kube import paths
from remediator.kube.errors import Call, Conflict, Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView
from remediator.kube.session import Listing

Hook = Callable[[str], object]
T = TypeVar("T")


def nothing(_op: str) -> None:
    """The hook that does nothing."""


@dataclass(frozen=True)
class Write:
    """One accepted change: which request, by whom, and the patch (None for outside changes)."""

    op: str
    node: str
    actor: str
    patch: Json | None = None


@dataclass
class FakeApi:
    """Nodes and pods with resourceVersions. `before` and `after` see each request ("patch nodes/gpu-0")
    and may raise: before = it never arrived, after = accepted and the answer lost."""

    before: Hook = nothing
    after: Hook = nothing
    objects: dict[str, Json] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Read one object."""
        return self._request(Call("get", path, writes=False), lambda: copy.deepcopy(self.objects.get(path)))

    def list(self, path: str, *, deadline: float, params: Mapping[str, str] | None = None) -> Listing:
        """Read a collection; understands the field selector spec.nodeName."""
        node = (params or {}).get("fieldSelector", "").removeprefix("spec.nodeName=")

        def read() -> Listing:
            kind = path.rsplit("/", 1)[1]
            found = [copy.deepcopy(obj) for at, obj in self.objects.items() if at.rsplit("/", 2)[1] == kind]
            wanted = [obj for obj in found if not node or obj["spec"].get("nodeName") == node]
            return Listing(tuple(wanted), str(next(self.versions)))

        return self._request(Call("list", path, writes=False), read)

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:
        """JSON merge patch with resourceVersion and uid as preconditions."""
        call = Call("patch", path, writes=True)
        return self._request(call, lambda: self._patched(call, body))

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:
        """Not needed by the drivers so far."""
        raise NotImplementedError(path)

    def delete(self, path: str, uid: str, *, deadline: float) -> Json | None:
        """Not needed by the drivers so far."""
        raise NotImplementedError(path)

    def put(self, path: str, obj: Json) -> None:
        """Create or replace an object from outside."""
        meta = {**obj["metadata"], "resourceVersion": str(next(self.versions))}
        self.objects[path] = {**obj, "metadata": meta}

    def _request(self, call: Call, act: Callable[[], T]) -> T:
        self.requests.append(str(call))
        self.before(str(call))
        answer = act()
        self.after(str(call))
        return answer

    def _patched(self, call: Call, body: Json) -> Json | None:
        old = self.objects.get(call.path)
        if old is None:
            return None
        for precondition in ("resourceVersion", "uid"):
            wanted = body.get("metadata", {}).get(precondition)
            if wanted is not None and wanted != old["metadata"][precondition]:
                raise Conflict(f"{call}: {precondition} is not {wanted}")
        new = merge(old, body)
        if new != old:
            new["metadata"]["resourceVersion"] = str(next(self.versions))
            self.objects[call.path] = new
            self.writes.append(Write("patch", old["metadata"]["name"], "remediator", copy.deepcopy(body)))
        return copy.deepcopy(self.objects[call.path])


class FakeCluster:
    """The Cluster port: the real driver over a FakeApi, and a hand to play everybody else.

    `before(op)` and `after(op)` see port calls ("node", "pods_on", "fence", "unfence") and each API
    request ("get nodes/gpu-0", "patch nodes/gpu-0"); what they raise is what the caller gets.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.before: Hook = nothing
        self.after: Hook = nothing
        self.api = FakeApi(before=self._before, after=self._after)
        self._driver = KubeCluster(self.api, clock or ManualClock())
        self._uids = itertools.count(1)

    @property
    def writes(self) -> list[Write]:
        """Accepted writes by us and by others, oldest first."""
        return self.api.writes

    def ours(self, node: str) -> list[Write]:
        """Accepted writes by us to one node."""
        return [write for write in self.writes if write.node == node and write.actor == "remediator"]

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """See the port."""
        return self._hooked("node", lambda: self._driver.node(name, deadline=deadline))

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """See the port."""
        return self._hooked("pods_on", lambda: self._driver.pods_on(node, deadline=deadline))

    def fence(
        self, node: str, uid: str, incident: str, reason: str, *, cordon: bool, deadline: float
    ) -> Fencing:
        """See the port."""
        return self._hooked(
            "fence",
            lambda: self._driver.fence(node, uid, incident, reason, cordon=cordon, deadline=deadline),
        )

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Fencing:
        """See the port."""
        return self._hooked("unfence", lambda: self._driver.unfence(node, uid, incident, deadline=deadline))

    def add_node(
        self, name: str, *, labels: dict[str, str] | None = None, boot_id: str = "", provider_id: str = ""
    ) -> str:
        """A Ready node; its uid. The same name again is another machine under that name."""
        uid = f"uid-{name}-{next(self._uids)}"
        self.api.put(
            paths.node(name),
            {
                "metadata": {"name": name, "uid": uid, "labels": labels or {}},
                "spec": {"providerID": provider_id or f"fake://{uid}"},
                "status": {
                    "nodeInfo": {"bootID": boot_id or f"boot-{uid}"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
        return uid

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
    ) -> str:
        """A pod on a node; its uid."""
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
                    "ownerReferences": [{"kind": owner}] if owner else [],
                },
                "spec": {"nodeName": node, "hostname": name},
                "status": {"phase": phase},
            },
        )
        return uid

    def remove_pod(self, namespace: str, name: str) -> None:
        """The pod is gone."""
        del self.api.objects[paths.pod(namespace, name)]

    def view(self, name: str) -> NodeView:
        """The node as it is, past all hooks."""
        found = parse_node(self.api.objects[paths.node(name)])
        assert found is not None
        return found

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

    def _hooked(self, op: str, act: Callable[[], T]) -> T:
        self.before(op)
        answer = act()
        self.after(op)
        return answer


def merge(target: Json, patch: Json) -> Json:
    """RFC 7386: the target with the patch applied; both stay as they are."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = merge(old if isinstance(old, dict) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result
