"""An API server in memory: nodes and pods with versions, preconditions, evictions and graceful deletion."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from remediator.clock import Clock, ManualClock, rfc3339
from remediator.kube.errors import Call, Conflict, Json, answer_error
from remediator.kube.session import Listing

GRACE_S = 30

Hook = Callable[[str], object]
T = TypeVar("T")


def nothing(_op: str) -> None:
    """The hook that does nothing."""


@dataclass(frozen=True)
class Write:
    """One accepted change: which request, to which node or pod ("namespace/name"), by whom, and the patch
    (None for outside changes)."""

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
    clock: Clock = field(default_factory=ManualClock)
    budgets: dict[str, list[str]] = field(default_factory=dict)
    dead_kubelets: set[str] = field(default_factory=set)
    trials: dict[str, Json] = field(default_factory=dict)
    versions: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Read one object."""
        return self._request(Call("get", path, writes=False), lambda: copy.deepcopy(self.objects.get(path)))

    def list(self, path: str, *, deadline: float, params: Mapping[str, str] | None = None) -> Listing:
        """Read a collection; understands the field selector spec.nodeName and label selectors of `a=b`."""
        node = (params or {}).get("fieldSelector", "").removeprefix("spec.nodeName=")
        pairs = filter(None, (params or {}).get("labelSelector", "").split(","))
        labels = dict(pair.split("=", 1) for pair in pairs)

        def wanted(obj: Json) -> bool:
            here = not node or obj["spec"].get("nodeName") == node
            return here and all(obj["metadata"]["labels"].get(key) == value for key, value in labels.items())

        def read() -> Listing:
            kind = path.rsplit("/", 1)[1]
            found = [obj for at, obj in self.objects.items() if at.rsplit("/", 2)[1] == kind and wanted(obj)]
            return Listing(tuple(copy.deepcopy(found)), str(next(self.versions)))

        return self._request(Call("list", path, writes=False), read)

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:
        """JSON merge patch with resourceVersion and uid as preconditions."""
        call = Call("patch", path, writes=True)
        return self._request(call, lambda: self._patched(call, body))

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:
        """Evict a pod, or make one; nothing else is created through the drivers."""
        call = Call("create", path, writes=not harmless)
        pod = path.removesuffix("/eviction")
        if pod != path:
            return self._request(call, lambda: self._evicted(call, pod, body))
        assert path.endswith("/pods"), path
        return self._request(call, lambda: self._made(call, body))

    def delete(self, path: str, uid: str, *, deadline: float, grace: int | None = None) -> Json | None:
        """Delete a pod, with its own grace unless told."""
        call = Call("delete", path, writes=True)

        def act() -> Json | None:
            return self._deleted(call, path, {"uid": uid}, grace, "delete" if grace != 0 else "force-delete")

        return self._request(call, act)

    def _made(self, call: Call, body: Json) -> Json:
        """The pod, with the status its node's entry in `trials` gives it: it has succeeded unless told."""
        meta, path = body["metadata"], f"{call.path}/{body['metadata']['name']}"
        if path in self.objects:
            raise Conflict(f"{call}: it exists")
        born = {"uid": f"uid-{next(self.versions)}", "creationTimestamp": rfc3339(self.clock.now())}
        status = self.trials.get(body["spec"]["nodeName"], {"phase": "Succeeded"})
        self.put(path, {**body, "metadata": {**meta, **born}, "status": status})
        self.writes.append(Write("create", f"{meta['namespace']}/{meta['name']}", "remediator"))
        return copy.deepcopy(self.objects[path])

    def kubelet_ends(self, path: str) -> None:
        """The kubelet reports that the pod's processes ended; finalizers still hold the object."""
        obj = self.objects.get(path)
        if obj is None or "deletionTimestamp" not in obj["metadata"]:
            return
        if obj["metadata"].get("finalizers"):
            self.put(path, merge(obj, {"metadata": {"deletionGracePeriodSeconds": 0}}))
        else:
            del self.objects[path]

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

    def _evicted(self, call: Call, path: str, body: Json) -> Json | None:
        old = self.objects.get(path)
        if old is None:
            return None
        budgets = self.budgets.get(path, [])
        if budgets and old["status"]["phase"] == "Running" and "deletionTimestamp" not in old["metadata"]:
            raise _refused(call, budgets)
        preconditions = body["deleteOptions"]["preconditions"]
        self._deleted(call, path, preconditions, None, "evict")
        return {"kind": "Status", "status": "Success", "code": 201}

    def _deleted(self, call: Call, path: str, preconditions: Json, grace: int | None, op: str) -> Json | None:
        old = self.objects.get(path)
        if old is None:
            return None
        for name, wanted in preconditions.items():
            if wanted != old["metadata"][name]:
                raise Conflict(f"{call}: {name} is not {wanted}")
        meta, spec = old["metadata"], old["spec"]
        seconds = spec.get("terminationGracePeriodSeconds", GRACE_S) if grace is None else grace
        if "deletionTimestamp" not in meta or seconds == 0:
            due = rfc3339(self.clock.now() + seconds)
            marks = {"deletionTimestamp": due, "deletionGracePeriodSeconds": seconds}
            self.put(path, merge(old, {"metadata": marks}))
            self.writes.append(Write(op, f"{meta['namespace']}/{meta['name']}", "remediator"))
        answer = copy.deepcopy(self.objects[path])
        if seconds == 0 or spec.get("nodeName") not in self.dead_kubelets:
            self.kubelet_ends(path)
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


def _refused(call: Call, budgets: list[str]) -> Exception:
    """What the real server answers when one budget forbids an eviction, and when two match the pod."""
    if len(budgets) > 1:
        several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
        return answer_error(call, 500, {}, {"message": f"{several} support."})
    said = f"The disruption budget {budgets[0]} needs 1 healthy pods and has 1 currently"
    body = {
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": said}]},
    }
    return answer_error(call, 429, {}, body)
