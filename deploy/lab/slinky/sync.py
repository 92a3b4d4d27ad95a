"""One pass over one NodeSet: read, decide with `plan`, write. Steps and order are those of v1.2.1."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from . import plan, pods, status
from .kube import Kube, KubeError
from .lag import Span, adopt_delay
from .model import POD_CORDON, Json, KubeNode, NodeSet, SlurmNode, WorkerPod
from .slurm import SlurmError, SlurmRest

log = logging.getLogger("slinky")
MayShow = Callable[[WorkerPod, bool], bool]
WORKERS = "app.kubernetes.io/component=worker"


@dataclass(frozen=True)
class Habits:
    """The operator's settings that a pass needs; seconds."""

    adopt: Span
    register_grace: float
    propagated: tuple[str, ...] = ()


class NodeSetPass:
    """A pass; `rest` is None when no RestApi serves the controller, which v1.2.1 takes for `drained`."""

    def __init__(
        self,
        kube: Kube,
        rest: SlurmRest | None,
        *,
        nodeset: NodeSet,
        controller: Json,
        habits: Habits,
        now: float,
    ) -> None:
        self.shows_busy: dict[str, bool] = {}
        self._kube = kube
        self._rest = rest
        self._nodeset = nodeset
        self._controller = controller
        self._habits = habits
        self._now = now
        self._pods: list[WorkerPod] = []
        self._nodes: dict[str, KubeNode] = {}
        self._records: dict[str, SlurmNode] = {}

    def run(self, may_show: MayShow) -> bool:
        """Every step; a failed one becomes an Event and the rest goes on, except after a failed read."""
        if not self._step("RefreshNodeCache", self._read):
            return False
        steps: list[tuple[str, Callable[[], None]]] = [
            ("ClusterWorker", self._ensure_shared),
            ("Cordon", self._cordon),
            ("NodeSetPods", self._scale),
            ("SlurmNodes", self._drop_unregistered),
            ("PodInfo", self._adopt),
            ("Status", lambda: self._show(may_show)),
        ]
        done = [self._step(name, work) for name, work in steps]
        return all(done)

    def next_adoption(self) -> float:
        """When the next pod is due to be written into its record; infinity when none is."""
        waiting = [self._adopt_at(p) for p in self._pods if plan.adopt(self._nodeset, p, self._record(p))]
        return min(waiting, default=float("inf"))

    def _step(self, name: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except (KubeError, SlurmError) as error:
            log.warning("nodeset %s: step %s failed: %s", self._nodeset.name, name, error)
            self._tell("SyncFailed", f'Failed "{name}" step: {error}')
            return False
        return True

    def _read(self) -> None:
        self._read_slurm()
        owned = self._kube.items(self._path("pods"), labelSelector=WORKERS)
        self._pods = [WorkerPod.from_json(raw) for raw in owned if _is_owned(raw, self._nodeset.uid)]
        found = (KubeNode.from_json(raw) for raw in self._kube.items("/api/v1/nodes"))
        self._nodes = {node.name: node for node in found}

    def _read_slurm(self) -> None:
        self._records = self._rest.nodes() if self._rest else {}

    def _ensure_shared(self) -> None:
        budget, service = pods.disruption_budget(self._nodeset), pods.workers_service(self._nodeset)
        base = f"/apis/policy/v1/namespaces/{self._nodeset.namespace}/poddisruptionbudgets"
        for path, manifest in ((base, budget), (self._path("services"), service)):
            if self._kube.get(f"{path}/{manifest['metadata']['name']}") is None:
                self._kube.create(path, manifest)

    def _cordon(self) -> None:
        for i, pod in enumerate(self._pods):
            node, record = self._nodes.get(pod.node), self._record(pod)
            actions = plan.cordon(pod, node, record, self._habits.propagated)
            if node is not None and node.unschedulable and actions:
                self._tell("NodeCordon", f"Cordoning Pod {pod.key}: Kubernetes node {node.name} was cordoned")
            self._pods[i] = _after(pod, actions)
            self._apply(actions)

    def _scale(self) -> None:
        out = plan.condemned(self._pods, self._nodeset.replicas)
        going = {pod.uid for pod in out}
        for pod in self._pods:
            record = self._record(pod)
            if pod.uid in going:
                self._apply(plan.condemn(pod, record))
            else:
                self._apply(plan.keep(pod, self._nodes.get(pod.node), record) + plan.tidy(pod))
        for ordinal in plan.missing_ordinals(self._pods, self._nodeset.replicas):
            self._tell("ScalingUp", f"Creating Pod {self._nodeset.name}-{ordinal}")
            self._kube.create(self._path("pods"), pods.worker_pod(self._nodeset, self._controller, ordinal))

    def _drop_unregistered(self) -> None:
        if self._rest is None:
            return
        for pod in self._pods:
            actions = plan.unregistered(pod, self._record(pod), self._now, self._habits.register_grace)
            if actions:
                self._tell("SlurmNodeNotRegistered", f"Deleting Pod {pod.key}: Slurm node is not registered")
            self._apply(actions)

    def _adopt(self) -> None:
        for pod in self._pods:
            if self._adopt_at(pod) <= self._now:
                self._apply(plan.adopt(self._nodeset, pod, self._record(pod)))
        self._read_slurm()

    def _show(self, may_show: MayShow) -> None:
        totals = status.nodeset_status(self._nodeset, self._pods, self._records)
        if status.differs(self._nodeset, totals):
            path = status.nodeset_path(self._nodeset)
            self._kube.patch(path, {"status": totals})
        for pod in self._pods:
            record = self._record(pod)
            busy = record is not None and plan.is_busy(record)
            self.shows_busy[pod.slurm_name] = plan.shows_busy(pod.slurm_conditions)
            if may_show(pod, busy):
                self.shows_busy[pod.slurm_name] = busy
                status.show(self._kube, pod, record, self._nodeset.protection, self._now)

    def _apply(self, actions: Iterable[plan.Action]) -> None:
        for action in actions:
            log.info("nodeset %s: %s", self._nodeset.name, _describe(action))
            if isinstance(action, plan.SetSlurm):
                if self._rest is not None:
                    self._rest.update(action)
            elif isinstance(action, plan.SetCordon):
                body = {"metadata": {"annotations": {POD_CORDON: "true" if action.on else None}}}
                self._kube.patch(self._path("pods", action.pod.name), body)
            else:
                self._kube.delete(self._path("pods", action.pod.name), action.pod.uid)

    def _record(self, pod: WorkerPod) -> SlurmNode | None:
        return self._records.get(pod.slurm_name)

    def _adopt_at(self, pod: WorkerPod) -> float:
        return (pod.ready_since or self._now) + adopt_delay(pod.uid, self._habits.adopt)

    def _path(self, kind: str, name: str = "") -> str:
        tail = f"/{quote(name, safe='')}" if name else ""
        return f"/api/v1/namespaces/{self._nodeset.namespace}/{kind}{tail}"

    def _tell(self, reason: str, message: str) -> None:
        try:
            self._kube.create(self._path("events"), status.event(self._nodeset, reason, message, self._now))
        except KubeError as error:
            log.warning("event %s not written: %s", reason, error)


def _is_owned(raw: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in raw["metadata"].get("ownerReferences") or ())


def _after(pod: WorkerPod, actions: Iterable[plan.Action]) -> WorkerPod:
    """The pod as later steps of the same pass must see it."""
    for action in actions:
        if isinstance(action, plan.SetCordon):
            pod = replace(pod, cordoned=action.on)
    return pod


def _describe(action: plan.Action) -> str:
    if isinstance(action, plan.SetSlurm):
        fields = {"state": action.state, "reason": action.reason, "comment": action.comment}
        told = " ".join(f"{k}={v!r}" for k, v in fields.items() if v is not None)
        return f"Slurm node {action.node}: {told}"
    if isinstance(action, plan.SetCordon):
        return f"pod {action.pod.name}: pod-cordon {'set' if action.on else 'removed'}"
    return f"pod {action.pod.name}: deleted ({action.why})"
