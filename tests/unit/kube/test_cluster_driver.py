"""The driver when answers are lost, late or odd; and the fake's hooks, which crash tests lean on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from remediator.clock import ManualClock
from remediator.errors import Ambiguous, Blocked, Retry
from remediator.kube import paths
from remediator.kube.fence import CORDON_REASON, DID, INCIDENT
from tests.fakes.kube import FakeCluster

D = 5.0


class Boom(BaseException):
    """A crash."""


def at(op: str, act: Callable[[], object], occurrence: int = 1) -> Callable[[str], None]:
    """A hook that acts at the n-th `op` only."""
    seen = itertools.count(1)

    def hook(what: str) -> None:
        if what == op and next(seen) == occurrence:
            act()

    return hook


def crash() -> None:
    raise Boom


def lose() -> None:
    raise Ambiguous("answer lost")


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(ManualClock())
    cluster.add_node("a")
    return cluster


def fence(cluster: FakeCluster) -> bool:
    return cluster.fence(cluster.view("a"), "inc-1", "remediator: inc-1", cordon=True, deadline=D).wrote


@pytest.mark.parametrize("op", ["fence", "patch nodes/a"])
def test_a_crash_before_the_server_accepted_leaves_no_trace(cluster: FakeCluster, op: str) -> None:
    cluster.before = at(op, crash)
    with pytest.raises(Boom):
        fence(cluster)
    assert cluster.writes == []


@pytest.mark.parametrize("op", ["patch nodes/a", "fence"])
def test_after_an_accepted_write_whose_answer_is_lost_nothing_is_written_again(
    cluster: FakeCluster, op: str
) -> None:
    cluster.after = at(op, lose)
    with pytest.raises(Ambiguous):
        fence(cluster)
    assert len(cluster.ours("a")) == 1
    assert not fence(cluster)
    assert len(cluster.ours("a")) == 1


def test_a_write_that_cannot_be_read_back_is_ambiguous(cluster: FakeCluster) -> None:
    def fail() -> None:
        raise Retry("no answer")

    cluster.before = at("get nodes/a", fail)
    with pytest.raises(Ambiguous, match="not read back"):
        fence(cluster)
    assert len(cluster.ours("a")) == 1


def test_a_write_that_does_not_show_is_ambiguous(cluster: FakeCluster) -> None:
    def revert() -> None:
        cluster.uncordon("a")
        cluster.set_taints("a", [])
        cluster.annotate("a", {INCIDENT: None, DID: None, CORDON_REASON: None})

    cluster.after = at("patch nodes/a", revert)
    with pytest.raises(Ambiguous, match="does not show"):
        fence(cluster)


def test_a_person_faster_than_the_read_back_is_respected(cluster: FakeCluster) -> None:
    cluster.after = at("patch nodes/a", lambda: cluster.uncordon("a"))
    with pytest.raises(Blocked, match="uncordoned"):
        fence(cluster)
    assert not cluster.view("a").unschedulable


def test_a_deadline_spent_on_the_read_forbids_the_write() -> None:
    clock = ManualClock()
    cluster = FakeCluster(clock)
    cluster.add_node("a")
    fence(cluster)
    cluster.after = at("get nodes/a", lambda: clock.advance(D))
    with pytest.raises(Retry, match="before the request was sent"):
        cluster.unfence("a", cluster.view("a").uid, "inc-1", deadline=D)
    assert len(cluster.writes) == 1


def test_an_answer_about_another_node_is_not_believed(cluster: FakeCluster) -> None:
    cluster.api.objects[paths.node("b")] = cluster.api.objects[paths.node("a")]
    with pytest.raises(Retry, match="not this node"):
        cluster.node("b", deadline=D)


def test_a_pod_that_cannot_be_understood_makes_the_whole_answer_unknown(cluster: FakeCluster) -> None:
    cluster.add_pod("default", "p", "a")
    assert len(cluster.pods_on("a", deadline=D)) == 1
    cluster.api.objects[paths.pod("default", "odd")] = {"metadata": {}, "spec": {"nodeName": "a"}}
    with pytest.raises(Retry, match="is no pod"):
        cluster.pods_on("a", deadline=D)


def test_a_replaced_machine_has_another_uid_and_boot(cluster: FakeCluster) -> None:
    old = cluster.view("a")
    cluster.add_node("a")
    new = cluster.view("a")
    assert (new.uid, new.boot_id) != (old.uid, old.boot_id)
    cluster.reboot("a", "boot-9")
    assert (cluster.view("a").uid, cluster.view("a").boot_id) == (new.uid, "boot-9")
