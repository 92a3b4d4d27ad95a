"""One suite, two worlds: a real kube-apiserver and the fake that crash tests use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from remediator.actuators.cluster import KubeCluster
from remediator.actuators.ports import Cluster
from remediator.clock import SystemClock
from remediator.kube import paths
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.session import Api
from tests.fakes.kube import FakeCluster
from tests.servers.kube import KubeServer, kube_server

__all__ = ["kube_server"]
_RUN = os.urandom(3).hex()
_NUMBERS = itertools.count(1)


class World(Protocol):
    """A training cluster with a hand to play everybody else."""

    cluster: Cluster
    api: Api

    def over(self, api: Api) -> Cluster:
        """The driver over another Api."""

    def add_node(self, name: str, **spec: Any) -> str:
        """A new node; its uid."""

    def remove_node(self, name: str) -> None:
        """The node is deleted."""

    def add_pod(self, name: str, node: str) -> str:
        """A pod in namespace default; its uid."""

    def change(self, name: str, patch: Json) -> None:
        """Somebody else patches the node."""

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
        self.add_node, self.remove_node = server.add_node, server.remove_node

    def over(self, api: Api) -> Cluster:
        return KubeCluster(api, SystemClock())

    def add_pod(self, name: str, node: str) -> str:
        return self.server.add_pod("default", name, node)

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
        self.api: Api = self.fake.api
        self.remove_node, self.view = self.fake.remove_node, self.fake.view

    def over(self, api: Api) -> Cluster:
        return KubeCluster(api, SystemClock())

    def add_node(self, name: str, **spec: Any) -> str:
        uid = self.fake.add_node(name)
        if spec:
            self.change(name, {"spec": spec})
        return uid

    def add_pod(self, name: str, node: str) -> str:
        return self.fake.add_pod("default", name, node)

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
