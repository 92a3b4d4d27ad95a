"""Evictions per second: pods that no kubelet has to stop, through the actuator, beside the bare calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from deploy.lab.api import Lab
from deploy.lab.spec import SLURM_NAMESPACE
from remediator.actuators.cluster import KubeCluster
from remediator.actuators.nodes import Nodes
from remediator.clock import SystemClock
from remediator.guard import open_guard
from remediator.kube import paths
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.session import Api, connect
from tests.bench.figures import Figure, Goal

EVICT, RAW = "evictions, 8 workers", "raw evictions, 8 workers"
GOAL = Goal(at_least=50)
WORKERS = 8
"""As many as the controller has for everything but drain and fence."""
PODS = 64
DEADLINE_S = 5.0
_PODS = f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods"


def measure(lab: Lab, rounds: int, tell: Callable[[str], None]) -> list[Figure]:
    """`rounds` times all pods of a batch, ours and bare in turns. The caller is in the lab's network."""
    clock = SystemClock()
    session = connect(lab.layout.kubeconfig, clock=clock)
    nodes = Nodes(KubeCluster(session, clock), open_guard(clock))

    def bare(pod: PodView) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
        session.post(paths.eviction(pod.namespace, pod.name), body, deadline=DEADLINE_S)

    rates: dict[str, list[float]] = {EVICT: [], RAW: []}
    numbers = count()
    for i in range(rounds):
        tell(f"evictions: {i} of {rounds}")
        for name, act in ((EVICT, nodes.evict), (RAW, bare)):
            rates[name].append(_rate(act, _pods(session, numbers)))
    return [
        Figure(EVICT, "evictions/s", tuple(rates[EVICT]), RAW, GOAL),
        Figure(RAW, "evictions/s", tuple(rates[RAW])),
    ]


def _rate(act: Callable[[PodView], object], pods: list[PodView]) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(act, pods))
    return len(pods) / (time.perf_counter() - began)


def _pods(api: Api, numbers: count[int]) -> list[PodView]:
    """Pods behind a gate of the scheduler: nobody touches them, and an eviction ends them at once."""
    made = [api.post(_PODS, _pod(f"bench-evict-{next(numbers)}"), deadline=DEADLINE_S) for _ in range(PODS)]
    parsed = [parse_pod(raw) for raw in made if raw is not None]
    return [pod for pod in parsed if pod is not None]


def _pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulingGates": [{"name": "remediator.dev/bench"}],
            "containers": [{"name": "c", "image": "localhost/pause:1"}],
        },
    }
