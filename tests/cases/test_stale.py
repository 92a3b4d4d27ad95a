"""What is told again, late, in another order, or of a machine that is not there any more."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.audit import chain
from remediator.clock import rfc3339
from remediator.settings import Pool
from remediator.store import schema, signals
from tests.cases.helpers import alert, deliver, settle, writes
from tests.crash.test_return import ask, out_of_service
from tests.crash.test_river import assert_moved_once
from tests.fakes import river as rivers
from tests.fakes.river import River

GAUGE = {"alertname": "GpuXidByDcgm", "witness": "dcgm-xid", "gpu": "3", "UUID": "GPU-aaaa"}


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> River:
    """A pool whose jobs are moved and whose nodes stay where they are, drained."""
    monkeypatch.setitem(rivers.POOLS, "training", Pool(node_selector={"pool": "training"}, stage="move-jobs"))
    return River(tmp_path)


@pytest.fixture
def repaired(moving: River) -> River:
    """gpu-0 lost its GPU, was rebooted and given back; its alert began before that."""
    out_of_service(moving)
    ask(moving)
    moving.run()
    assert not moving.kube.view("gpu-0").unschedulable
    return moving


def verdicts(river: River) -> list[str]:
    with river.store.read() as connection:
        return [text or "" for text in connection.execute(sa.select(schema.signal.c.verdict)).scalars()]


def test_a_gauge_that_stays_for_six_hours_is_one_incident(river: River) -> None:
    """O01 (1): the constant value 79, told every five minutes."""
    job, began = river.submit_job(), river.clock.now()
    river.xid("gpu-0")
    for _ in range(72):
        deliver(river, alert(began, **GAUGE))
        settle(river, 300.0)
    assert_moved_once(river, job)


@pytest.mark.parametrize("later", [False, True], ids=["the same episode", "the exporter was restarted"])
def test_what_a_repaired_node_still_shows_writes_nothing(repaired: River, later: bool) -> None:
    """O01 (2): the gauge alone is no witness, and an episode from before the close is the past."""
    before, closed = writes(repaired), repaired.all_incidents()[-1].opened_at
    for labels in (GAUGE, GAUGE | {"witness": "own-counters"}):
        if labels is GAUGE or not later:
            deliver(repaired, alert(repaired.clock.now() if later else closed, **labels))
            settle(repaired, 700.0)
    assert writes(repaired) == before
    assert repaired.open_incidents() == []


@pytest.mark.parametrize("by", ["line", "counters", "gauge and health"])
def test_a_new_fault_after_the_close_is_a_new_incident(repaired: River, by: str) -> None:
    """O01 (3), O04 (2): a change counts, by whatever witnesses are enough."""
    known = len(repaired.all_incidents())
    now = repaired.clock.now()
    if by == "line":
        repaired.xid("gpu-0", seq=2)
    elif by == "counters":
        deliver(repaired, alert(now, boot_id="boot-repaired"))
    else:
        deliver(repaired, alert(now, **GAUGE), alert(now + 1, alertname="x", witness="dcgm-health", xid=""))
    repaired.run()
    assert len(repaired.all_incidents()) == known + 1


@pytest.mark.parametrize("code", [13, 31, 79])
def test_the_same_code_twice_is_two_occurrences(river: River, code: int) -> None:
    """O01 (4): lines are told apart by their place in the log, not by their code; a repeated push is none."""
    for seq in (1, 2, 2):
        river.xid("gpu-0", code, seq=seq)
    with river.store.read() as connection:
        assert [one.code for one in signals.of_node(connection, "gpu-0", 0.0)] == [code, code]


def test_resolved_never_gives_a_node_back(moving: River) -> None:
    """O03 (1), (3): neither while the incident is open nor after; what was told is on the record."""
    moving.submit_job()
    began = moving.clock.now()
    deliver(moving, alert(began))
    for _ in range(20):
        moving.turn()
    over = rfc3339(began + 300)
    deliver(moving, alert(began, status="resolved", ends=over))
    moving.run()
    deliver(moving, alert(began, status="resolved", ends=over, witness="dcgm-xid"))
    before = writes(moving)
    settle(moving, 60.0)
    node = moving.slurm.node("w-gpu-0", deadline=5.0)
    assert node is not None
    assert node.is_drain
    assert moving.kube.view("gpu-0").unschedulable
    assert writes(moving) == before
    assert moving.slurm.count("resume", "w-gpu-0") == 0
    assert sum("alert-resolved" in text for text in verdicts(moving)) == 2


POSTS = {
    "first": ("firing", "a"), "retry": ("firing", "a"), "resolved": ("resolved", "a"),
    "peer 2": ("firing", "b"), "peer 3": ("firing", "c"), "resolved again": ("resolved", "b"),
}  # fmt: skip
ORDERS = [
    ["first", "retry", "resolved", "peer 2", "peer 3", "resolved again"],
    ["resolved", "first", "resolved again", "peer 2", "retry", "peer 3"],
    ["peer 3", "resolved", "first", "peer 2"],
    ["peer 2", "peer 2", "first", "first", "resolved", "peer 3"],
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_deliveries_in_any_order_are_one_incident(river: River, order: list[str]) -> None:
    """O04 (1), (2), (4): whatever the peers of Alertmanager send, and whenever."""
    job, began = river.submit_job(), river.clock.now()
    for name in order:
        status, replica = POSTS[name]
        deliver(river, alert(began, status=status, prometheus_replica=replica))
        settle(river, 12.0)
    river.run()
    assert_moved_once(river, job)


def test_an_alert_that_is_older_than_the_machine_writes_nothing_on_it(river: River) -> None:
    """O16 (1): another machine under the name, four minutes later, while the alert still fires."""
    began = river.clock.now()
    old = alert(began, boot_id="boot-gpu-0")
    deliver(river, old)
    river.run()
    river.kube.remove_node("gpu-0")
    settle(river, 240.0)
    river.kube.add_node("gpu-0", labels={"pool": "training"}, boot_id="boot-of-another")
    before = river.kube.view("gpu-0")
    for _ in range(8):
        deliver(river, old, old | {"status": "resolved"}, alert(began + 1, boot_id="boot-gpu-0"))
        settle(river, 60.0)
    assert river.kube.view("gpu-0") == before
    assert river.admitted() == ["spare-0"]
    assert len(river.all_incidents()) == 1


def test_a_second_event_that_was_folded_in_never_acts_after_a_restart(repaired: River) -> None:
    """O18 (1): E2 came while E1 was handled, and the service is killed after the recovery."""
    repaired.xid("gpu-0", 79, seq=2)
    repaired.turn()
    repaired.xid("gpu-0", 64, seq=3)
    repaired.run()
    assert sum("folds into incident" in text for text in verdicts(repaired)) == 1
    before, known = writes(repaired), len(repaired.all_incidents())
    repaired.clock.advance(2.0)
    repaired.begin()
    settle(repaired, 900.0)
    assert (writes(repaired), len(repaired.all_incidents())) == (before, known)


def test_the_record_names_both_sides_of_the_node(river: River) -> None:
    """O13 (4): the node, its uid, the Slurm name and the evidence."""
    river.xid("gpu-0")
    river.run()
    (incident,) = river.all_incidents()
    with river.store.read() as connection:
        text = str(list(chain.read(connection)))
    assert {"'gpu-0'", "w-gpu-0", "agent:gpu-0:boot-gpu-0:1"} <= {
        name for name in ("'gpu-0'", "w-gpu-0", "agent:gpu-0:boot-gpu-0:1") if name in text
    }
    assert (incident.node_uid, incident.slurm_nodes) == (river.kube.view("gpu-0").uid, ("w-gpu-0",))
