"""Ready only with caches that are filled and young, and a start that does not wait forever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.kube.pods import WORKER_LABELS
from remediator.observe.health import Health
from remediator.observe.metrics import Metrics
from remediator.run import caches as module
from remediator.run.caches import STALE_S, Caches
from remediator.settings import Pool
from tests.servers.kube_scripted import Handler, Server, serving

NODE: dict[str, Any] = {
    "metadata": {"name": "gpu-0", "uid": "u0", "resourceVersion": "5", "labels": {"pool": "training"}},
    "status": {"nodeInfo": {"bootID": "boot-0"}},
}
POD: dict[str, Any] = {
    "metadata": {
        "namespace": "slurm", "name": "worker", "uid": "p0", "resourceVersion": "6", "labels": WORKER_LABELS
    },
    "spec": {"nodeName": "gpu-0", "hostname": "w-0"},
    "status": {"phase": "Running"},
}  # fmt: skip


class Cluster(Server):
    """Lists one node and one worker pod; watches stay silent until the test sends a change."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.up = True
        self.change = threading.Event()

    def _answer(self, handler: Handler) -> None:
        if not self.up:
            handler.reply(503, {})
        elif "watch=" in handler.path:
            self._watch(handler)
        else:
            items = [NODE] if "/nodes" in handler.path else [POD]
            handler.reply(200, {"metadata": {"resourceVersion": "10"}, "items": items})

    def _watch(self, handler: Handler) -> None:
        handler.begin_stream()
        if "/nodes" in handler.path and self.change.wait(30.0):
            meta = {**NODE["metadata"], "resourceVersion": "11", "labels": {}}
            handler.event("MODIFIED", {**NODE, "metadata": meta})
        self.ending.wait(30.0)


class World:
    """Caches over a scripted server in virtual time, with their health."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self.clock = ManualClock()
        self.changed, self.lost = threading.Semaphore(0), threading.Semaphore(0)
        self.caches = Caches(
            server.session(self.clock), self.clock, self.changed.release, lost=self.lost.release
        )
        self.health, self.metrics = Health(self.clock), Metrics()
        self.caches.report(self.health, self.metrics)

    @property
    def lines(self) -> tuple[str, ...]:
        return self.health.readiness().lines


@pytest.fixture
def world() -> Iterator[World]:
    with serving(Cluster()) as server:
        assert isinstance(server, Cluster)
        world = World(server)
        yield world
        world.caches.stop()


def test_before_the_first_lists_nothing_is_ready(world: World) -> None:
    assert not world.health.readiness().ok
    assert world.lines == (
        "[-]watch-nodes failed: no list of nodes yet",
        "[-]watch-pods failed: no list of pods yet",
        "[-]watch-soperator-pods failed: no list of soperator-pods yet",
    )


def test_started_caches_are_ready_and_know_the_machine(world: World) -> None:
    world.caches.start()
    assert world.health.readiness().ok, world.lines
    found = world.caches.inventory({"training": Pool(node_selector={"pool": "training"})}).machine("gpu-0")
    assert found is not None
    assert (found.uid, found.pool, found.slurm_nodes) == ("u0", "training", ("w-0",))


def test_a_silent_watch_is_unready_by_name(world: World) -> None:
    world.caches.start()
    world.clock.advance(STALE_S)
    assert world.health.readiness().ok
    world.clock.advance(1.0)
    assert not world.health.readiness().ok
    assert "watch-nodes" in world.lines[0]
    assert "silent for 121 s" in world.lines[0]


def test_a_change_of_a_node_is_told(world: World) -> None:
    world.caches.start()
    while world.changed.acquire(blocking=False):
        pass
    world.server.change.set()
    assert world.changed.acquire(timeout=30.0)


def test_only_worker_pods_are_asked_for(world: World) -> None:
    world.caches.start()
    asked: list[Any] = [path for _, path, _, _ in world.server.requests if "/pods" in path]
    assert asked
    assert all("labelSelector=" in path for path in asked)


def test_a_server_that_does_not_answer_ends_the_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SYNC_S", 0.05)
    world.server.up = False
    with pytest.raises(Retry, match="no list of nodes"):
        world.caches.start()


def test_the_age_of_each_watch_is_a_number_for_prometheus(world: World) -> None:
    world.caches.start()
    world.clock.advance(7.0)
    text = world.metrics.render().decode()
    for name in ("nodes", "pods"):
        assert any(line.endswith(" 7.0") for line in text.splitlines() if f'resource="{name}"' in line), text
