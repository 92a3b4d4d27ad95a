"""Evictions whose answers are lost, late or throttled, and kubelets that live or do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from remediator.actuators.ports import Removal
from remediator.clock import ManualClock
from remediator.errors import Ambiguous, Blocked, Retry
from remediator.kube.errors import Conflict
from remediator.kube.pods import PodView
from tests.fakes.kube import FakeCluster

D = 5.0
EVICT = "create namespaces/slurm/pods/w-0/eviction"
READ = "get namespaces/slurm/pods/w-0"


class Boom(BaseException):
    """A crash."""


def at(op: str, error: BaseException, occurrence: int = 1) -> Callable[[str], None]:
    """A hook that raises at the n-th `op` only."""
    seen = itertools.count(1)

    def hook(what: str) -> None:
        if what == op and next(seen) == occurrence:
            raise error

    return hook


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(ManualClock())
    cluster.add_node("a")
    cluster.add_pod("slurm", "w-0", "a")
    return cluster


def seen(cluster: FakeCluster) -> PodView:
    pod = cluster.pod("slurm", "w-0")
    assert pod is not None
    return pod


def evict(cluster: FakeCluster) -> Removal:
    return cluster.evict(seen(cluster), deadline=D)


def test_a_live_kubelet_ends_an_evicted_pod(cluster: FakeCluster) -> None:
    assert evict(cluster) == Removal(None, wrote=True)
    assert len(cluster.ours("slurm/w-0")) == 1


def test_a_dead_kubelet_leaves_it_terminating_until_it_is_back(cluster: FakeCluster) -> None:
    cluster.kill_kubelet("a")
    assert not evict(cluster).gone
    assert seen(cluster).terminating
    cluster.revive_kubelet("a")
    assert cluster.pod("slurm", "w-0") is None


def test_a_finalizer_holds_a_pod_of_a_live_kubelet_too(cluster: FakeCluster) -> None:
    cluster.change_pod("slurm", "w-0", {"metadata": {"finalizers": ["example.com/hold"]}})
    held = evict(cluster)
    assert held.pod is not None
    assert held.pod.finalizers == ("example.com/hold",)
    cluster.change_pod("slurm", "w-0", {"metadata": {"finalizers": None}})
    assert cluster.pod("slurm", "w-0") is None


@pytest.mark.parametrize("op", ["evict", EVICT])
def test_a_crash_before_the_server_accepted_leaves_no_trace(cluster: FakeCluster, op: str) -> None:
    cluster.before = at(op, Boom())
    with pytest.raises(Boom):
        evict(cluster)
    assert cluster.writes == []


def test_after_a_lost_answer_nothing_is_written_again(cluster: FakeCluster) -> None:
    cluster.kill_kubelet("a")
    judged = seen(cluster)
    cluster.after = at(EVICT, Ambiguous("answer lost"))
    with pytest.raises(Ambiguous):
        cluster.evict(judged, deadline=D)
    again = cluster.evict(judged, deadline=D)
    assert again.pod is not None
    assert not again.wrote
    assert len(cluster.ours("slurm/w-0")) == 1


def test_an_eviction_that_cannot_be_read_back_is_ambiguous(cluster: FakeCluster) -> None:
    cluster.before = at(READ, Retry("no answer"))
    with pytest.raises(Ambiguous, match="not read back"):
        evict(cluster)


def test_a_throttled_eviction_says_when_to_come_back(cluster: FakeCluster) -> None:
    cluster.before = at(EVICT, Retry("HTTP 429", after=7.0))
    with pytest.raises(Retry) as caught:
        evict(cluster)
    assert caught.value.after == 7.0


def test_a_pod_that_changed_since_it_was_judged_is_judged_again(cluster: FakeCluster) -> None:
    judged = seen(cluster)
    cluster.change_pod("slurm", "w-0", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        cluster.evict(judged, deadline=D)
    assert cluster.ours("slurm/w-0") == []


def test_a_budget_that_is_lifted_lets_the_next_try_through(cluster: FakeCluster) -> None:
    cluster.protect_pod("slurm", "w-0", "workers")
    with pytest.raises(Blocked, match="disruption budget workers "):
        evict(cluster)
    cluster.protect_pod("slurm", "w-0")
    assert evict(cluster).gone
