"""One suite, two worlds: a real kube-apiserver and the fake that crash tests use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import Cluster, SparePool
from remediator.actuators.spares import LabelledSpares
from remediator.clock import SystemClock
from remediator.kube import paths
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.session import Api
from remediator.kube.spare import SpareKeys
from tests.fakes.kube import FakeCluster
from tests.servers.kube import KubeServer, kube_server

__all__ = ["kube_server"]
_RUN = os.urandom(3).hex()
_NUMBERS = itertools.count(1)


class World(Protocol):
    """A training cluster with a hand to play everybody else."""

    cluster: Cluster
    spares: SparePool
    api: Api

    def over(self, api: Api) -> Cluster:
        """The driver over another Api."""

    def add_node(self, name: str, **spec: Any) -> str:
        """A new node; its uid."""

    def remove_node(self, name: str) -> None:
        """The node is deleted."""

    def add_pod(self, name: str, node: str, **more: Any) -> str:
        """A running pod in namespace default; its uid. More: labels, gpus, finalizers."""

    def pod(self, name: str) -> PodView | None:
        """The pod as it is."""

    def change_pod(self, name: str, patch: Json) -> None:
        """Somebody else patches the pod."""

    def protect(self, name: str, *budgets: str) -> None:
        """Disruption budgets that forbid evicting the pods with label app=name."""

    def kubelet_ends(self, name: str) -> None:
        """The kubelet, dead until now, reports the end of a deleted pod."""

    def pod_writes(self, name: str) -> int:
        """Accepted writes of ours to this pod."""

    def change(self, name: str, patch: Json) -> None:
        """Somebody else patches the node."""

    def show_gpus(self, name: str, healthy: int, capacity: int) -> None:
        """The device plugin says how many GPUs there are."""

    def stall(self, name: str) -> None:
        """New pods of the node stay Pending."""

    def view(self, name: str) -> NodeView:
        """The node as it is."""

    def writes(self, name: str) -> int:
        """Accepted writes of ours to this node, as the server counts them."""


class RealWorld:
    """A real kube-apiserver; writes are counted from its audit log."""

    def __init__(self, server: KubeServer) -> None:
        self.server = server
        self.admin = server.session("admin")
        self.api: Api = server.session("remediator")
        self.cluster: Cluster = KubeCluster(self.api, SystemClock())
        self.spares: SparePool = LabelledSpares(self.api, SystemClock(), SpareKeys())
        self.add_node, self.remove_node = server.add_node, server.remove_node

    def over(self, api: Api) -> Cluster:
        return KubeCluster(api, SystemClock())

    def add_pod(self, name: str, node: str, **more: Any) -> str:
        limits = {"nvidia.com/gpu": str(more.get("gpus", 0))} if more.get("gpus") else {}
        meta = {"name": name, "labels": more.get("labels"), "finalizers": more.get("finalizers")}
        container = {"name": "c", "image": "localhost/base:1", "resources": {"limits": limits}}
        body = {"metadata": meta, "spec": {"nodeName": node, "hostname": name, "containers": [container]}}
        made = self.admin.post("/api/v1/namespaces/default/pods", body, deadline=5.0)
        assert made is not None
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.admin.patch(f"{paths.pod('default', name)}/status", {"status": running}, deadline=5.0)
        return str(made["metadata"]["uid"])

    def pod(self, name: str) -> PodView | None:
        raw = self.admin.get(paths.pod("default", name), deadline=5.0)
        return None if raw is None else parse_pod(raw)

    def change_pod(self, name: str, patch: Json) -> None:
        status = {"status": patch.pop("status")} if "status" in patch else None
        self.admin.patch(paths.pod("default", name), patch, deadline=5.0)
        if status:
            self.admin.patch(f"{paths.pod('default', name)}/status", status, deadline=5.0)

    def protect(self, name: str, *budgets: str) -> None:
        selector = {"matchLabels": {"app": name}}
        for budget in budgets:
            body = {"metadata": {"name": budget}, "spec": {"maxUnavailable": 0, "selector": selector}}
            path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
            self.admin.post(path, body, deadline=5.0)

    def kubelet_ends(self, name: str) -> None:
        pod = self.pod(name)
        assert pod is not None
        self.admin.delete(paths.pod("default", name), pod.uid, deadline=5.0, grace=0)

    def pod_writes(self, name: str) -> int:
        return sum(event["objectRef"]["name"] == name for event in self.server.writes(resource="pods"))

    def show_gpus(self, name: str, healthy: int, capacity: int) -> None:
        amounts = {"capacity": capacity, "allocatable": healthy}
        status = {key: {"nvidia.com/gpu": str(amount)} for key, amount in amounts.items()}
        self.admin.patch(f"{paths.node(name)}/status", {"status": status}, deadline=5.0)

    def stall(self, name: str) -> None:
        """There is no kubelet here anyway."""

    def change(self, name: str, patch: Json) -> None:
        self.admin.patch(paths.node(name), patch, deadline=5.0)

    def view(self, name: str) -> NodeView:
        raw = self.admin.get(paths.node(name), deadline=5.0)
        view = parse_node(raw or {})
        assert view is not None
        return view

    def writes(self, name: str) -> int:
        return sum(event["objectRef"]["name"] == name for event in self.server.writes())


class FakeWorld:
    """The in-memory cluster."""

    def __init__(self) -> None:
        self.fake = FakeCluster()
        self.cluster: Cluster = self.fake
        self.spares: SparePool = self.fake.spares
        self.api: Api = self.fake.api
        self.remove_node, self.view = self.fake.remove_node, self.fake.view

    def over(self, api: Api) -> Cluster:
        return KubeCluster(api, SystemClock())

    def add_node(self, name: str, **spec: Any) -> str:
        uid = self.fake.add_node(name, gpus=0)
        self.fake.kill_kubelet(name)  # the real world has none either
        if spec:
            self.change(name, {"spec": spec})
        return uid

    def add_pod(self, name: str, node: str, **more: Any) -> str:
        return self.fake.add_pod("default", name, node, **more)

    def pod(self, name: str) -> PodView | None:
        return self.fake.pod("default", name)

    def change_pod(self, name: str, patch: Json) -> None:
        self.fake.change_pod("default", name, patch)

    def protect(self, name: str, *budgets: str) -> None:
        self.fake.protect_pod("default", name, *budgets)

    def kubelet_ends(self, name: str) -> None:
        self.fake.api.kubelet_ends(paths.pod("default", name))

    def pod_writes(self, name: str) -> int:
        return len(self.fake.ours(f"default/{name}"))

    def show_gpus(self, name: str, healthy: int, capacity: int) -> None:
        amounts = {"capacity": capacity, "allocatable": healthy}
        status = {key: {"nvidia.com/gpu": str(amount)} for key, amount in amounts.items()}
        self.change(name, {"status": status})

    def stall(self, name: str) -> None:
        self.fake.api.trials[name] = {"phase": "Pending"}

    def change(self, name: str, patch: Json) -> None:
        self.fake.outside(name, "change", patch)

    def writes(self, name: str) -> int:
        return len(self.fake.ours(name))


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.kube), "fake"])
def world(request: pytest.FixtureRequest) -> World:
    """The real API server, then the fake."""
    return RealWorld(request.getfixturevalue("kube_server")) if request.param == "real" else FakeWorld()


@pytest.fixture
def name() -> str:
    """A node name no other test uses."""
    return f"gpu-{_RUN}-{next(_NUMBERS)}"


class Racing:
    """An Api that lets somebody else write right before each patch."""

    def __init__(self, api: Api, somebody: Callable[[], None]) -> None:
        self._api, self._somebody = api, somebody
        self.get, self.list, self.post, self.delete = api.get, api.list, api.post, api.delete

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:
        self._somebody()
        return self._api.patch(path, body, deadline=deadline)
