"""One fault told by several doors: one incident; a weak witness alone touches nothing."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from remediator.clock import rfc3339
from remediator.settings import Pool, Webhook
from remediator.signals.alertmanager import listed, read_notification, sampled, told
from remediator.signals.episodes import Door, convert
from remediator.store import signals
from tests.fakes.river import River

NAMES = Webhook()
LABELS = {"alertname": "GpuXid", "node": "gpu-0", "xid": "79", "pci": "0000:18:00"}


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def tell(river: River, door: Door, at: float, **labels: str) -> None:
    """The same alert by webhook, or by Alertmanager and Prometheus."""
    entry = {"labels": LABELS | labels, "startsAt": rfc3339(at)}
    if door == "webhook":
        body = json.dumps({"version": "4", "alerts": [entry | {"status": "firing"}]}).encode()
        alerts = told(read_notification(body).entries)
    else:
        alerts = listed(json.dumps([entry | {"status": {"state": "active"}}]).encode())
        alerts += sampled([{"metric": LABELS | labels, "value": [at, str(int(at))]}])
    with river.store.write() as connection:
        signals.insert_new(connection, convert(alerts, NAMES, door, river.clock.now()).signals)


@pytest.mark.parametrize("order", list(permutations(["agent", "webhook", "backfill"])), ids="-".join)
@pytest.mark.parametrize("witness", ["own-counters", "dcgm-xid"])
def test_same_fault_by_three_doors_three_times_is_one_incident(
    order: tuple[str, ...], witness: str, river: River
) -> None:
    job = river.submit_job()
    at = river.clock.now()
    for _ in range(3):
        for door in order:
            if door == "agent":
                river.xid("gpu-0")
            else:
                tell(river, "webhook" if door == "webhook" else "backfill", at, witness=witness)
            river.run(20)
    river.run()
    assert len(river.all_incidents()) == 1
    assert river.job(job).restart_count == 1


def test_an_alert_of_the_gauge_alone_touches_nothing(river: River) -> None:
    tell(river, "webhook", river.clock.now(), witness="dcgm-xid")
    tell(river, "backfill", river.clock.now(), witness="dcgm-xid")
    river.run(200)
    assert river.all_incidents() == []
    assert river.slurm.node("w-gpu-0", deadline=5.0).is_drain is False  # type: ignore[union-attr]


def test_an_alert_of_our_own_counters_acts(river: River) -> None:
    tell(river, "webhook", river.clock.now(), witness="own-counters")
    river.turn()
    assert len(river.open_incidents()) == 1


@pytest.mark.parametrize("late", [0.0, 30.0])
def test_a_second_witness_may_come_a_little_later(late: float, river: River) -> None:
    at = river.clock.now()
    tell(river, "webhook", at, witness="dcgm-xid")
    river.turn()
    river.clock.advance(late)
    tell(river, "webhook", at + late, witness="dcgm-health", xid="")
    river.turn()
    assert len(river.all_incidents()) == 1


def test_a_stale_alert_of_an_unknown_boot_never_acts(river: River) -> None:
    tell(river, "webhook", river.clock.now() - 700, witness="own-counters")
    river.run(200)
    assert river.all_incidents() == []


def test_a_weak_witness_lets_nobody_in_who_waits_at_the_door(river: River) -> None:
    """A stale XID 79 of the gauge folds into an incident that a pool only observes: it stays where it is."""
    river.pools = {"training": Pool(node_selector={"pool": "training"})}
    river.begin()
    river.xid("gpu-0", 119)
    for second in range(150):
        river.turn()
        if second == 75:
            tell(river, "webhook", river.clock.now(), witness="dcgm-xid")
    assert [(one.tier, one.state) for one in river.all_incidents()] == [("T1", "held")]
    assert (river.slurm.writes, river.kube.writes) == ([], [])
    river.xid("gpu-0", seq=2)
    river.run()
    assert [(one.tier, one.state) for one in river.all_incidents()] == [("T0", "closed")]
