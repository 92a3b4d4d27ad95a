"""One pass over one NodeSet: read, decide with `plan`, write. Steps and order are those of v1.2.1."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from . import placing, plan, pods, status
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
        self._template = pods.template(nodeset, controller)
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
        """Pods of the other scaling mode go once those of this one are made, old revisions at last."""
        mine = [pod for pod in self._pods if pod.daemon == self._nodeset.daemons]
        made, out = self._daemons(mine) if self._nodeset.daemons else self._replicas(mine)
        if not made:
            out = out or [pod for pod in self._pods if pod not in mine]
        going = {pod.uid for pod in out + self._outdated([pod for pod in mine if pod not in out])}
        for pod in self._pods:
            record = self._record(pod)
            if pod.uid in going:
                self._apply(plan.condemn(pod, record))
            else:
                self._apply(plan.keep(pod, self._nodes.get(pod.node), record) + plan.tidy(pod))

    def _replicas(self, mine: list[WorkerPod]) -> tuple[int, list[WorkerPod]]:
        """Makes what is missing of the replicas: how many, and the pods that are too many."""
        nodeset, controller = self._nodeset, self._controller
        pinned = nodeset.pins if nodeset.pin_to_node else {}
        missing = plan.missing_ordinals(mine, nodeset.replicas)
        for ordinal in missing:
            node = self._nodes.get(str(pinned.get(str(ordinal), "")))
            pin = node.name if node and placing.fits(self._template, node)[0] else ""
            self._make(f"{nodeset.name}-{ordinal}", pods.worker_pod(nodeset, controller, ordinal, pin))
        return len(missing), plan.condemned(mine, nodeset.replicas)

    def _daemons(self, mine: list[WorkerPod]) -> tuple[int, list[WorkerPod]]:
        """Makes a worker on each node that lacks one: how many, and the pods that are not to be."""
        lacking, surplus = placing.daemons(self._template, self._nodes.values(), mine)
        for node in lacking:
            pod = pods.daemon_pod(self._nodeset, self._controller, node.name, placing.hostname(node))
            self._make(f"for {node.name}", pod)
        return len(lacking), surplus

    def _outdated(self, stay: list[WorkerPod]) -> list[WorkerPod]:
        """The ones a rolling update takes away now."""
        nodeset = self._nodeset
        if nodeset.daemons:
            return plan.outdated(stay, nodeset.revision, len(stay), lost=0)
        lost = nodeset.replicas - sum(not pod.terminating for pod in stay)
        return plan.outdated(stay, nodeset.revision, nodeset.replicas, max(0, lost))

    def _make(self, what: str, pod: Json) -> None:
        self._tell("ScalingUp", f"Creating Pod {what}")
        self._kube.create(self._path("pods"), pod)

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
        pinned = placing.pins(self._nodeset, self._template, self._nodes, self._pods)
        wanted = sum(placing.fits(self._template, node)[0] for node in self._nodes.values())
        desired = wanted if self._nodeset.daemons else self._nodeset.replicas
        totals = status.nodeset_status(self._nodeset, self._pods, self._records, desired, pinned)
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
