"""Alerts of ports, links and memory, from each door to the node: what the samples of now do not say touches
nothing, and nothing that is told of a machine touches the next one of its name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.clock import rfc3339
from remediator.model.faults import LOOKS_BACK_S
from remediator.model.incident import GIVE_BACK, Incident
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run.thresholds import Thresholds
from remediator.settings import Webhook
from remediator.signals.alertmanager import listed, read_notification, sampled, told
from remediator.signals.episodes import convert
from remediator.store import schema
from tests.cases.helpers import settle
from tests.fakes.fabric import AGENT, PORT, SPELLINGS, Spelled, labels_of, raw_labels, samples
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.river import River

OWN = "own-counters"
RECORDED = {"ib-errors", "gpu-ecc-uncorrected"}
ACTING = [fault for fault, witness in SPELLINGS if witness == OWN and fault not in RECORDED]
DOORS = ["webhook", "alertmanager", "prometheus"]


class Site:
    """A river, its Prometheus, and the doors for alerts; `spelled` is a fault, a witness and their series."""

    def __init__(self, folder: Path) -> None:
        self.river = River(folder)
        self.prometheus = FakePrometheus()
        self.metrics = Metrics()
        self.thresholds = Thresholds(
            self.prometheus, self.river.inventory(), self.river._submit, self.metrics, self.river.own
        )
        self.began = self.river.clock.now()
        self.boots = {"boot-gpu-0": 0.0}

    def alert(
        self, fault: str, witness: str = OWN, boot: str = "boot-gpu-0", **labels: str
    ) -> dict[str, str]:
        """The labels as our rules write them."""
        about = {"node": "gpu-0"} | ({"boot_id": boot} if witness == OWN and boot else {})
        named = labels_of(fault, witness, SPELLINGS[fault, witness][0][1])
        return named | about | {"fault": fault, "witness": witness} | labels

    def tell(self, labels: dict[str, str], began: float, door: str = "webhook") -> None:
        """One delivery of an alert that fires."""
        entry: dict[str, Any] = {"labels": labels, "startsAt": rfc3339(began)}
        if door == "webhook":
            body = json.dumps({"version": "4", "alerts": [entry | {"status": "firing"}]}).encode()
            alerts = told(read_notification(body).entries)
        elif door == "alertmanager":
            alerts = listed(json.dumps([entry | {"status": {"state": "active"}}]).encode())
        else:
            alerts = sampled([{"metric": labels, "value": [began, str(began)]}])
        by: Any = "webhook" if door == "webhook" else "backfill"
        self.thresholds.submit(convert(alerts, Webhook(), by, self.river.own.now()).signals)

    def reads(self, *spelled: tuple[str, str, Spelled], well: bool = False, late: float = 0.0) -> None:
        """What Prometheus has by now; by our agent in each boot since its second."""
        now = self.river.clock.now() - late
        self.prometheus.series.clear()
        self.prometheus.limits(now - 3)
        for fault, witness, (metric, extra, goes) in spelled:
            self.prometheus.put(metric, raw_labels(fault, witness, extra), samples(goes, now, well=well))
        for boot, since in self.boots.items():
            about = AGENT | {"node": "gpu-0", "boot_id": boot}
            times = [at for at, _ in samples("set", now) if at >= since]
            self.prometheus.put("remediator_agent_info", about, [(at, 1.0) for at in times])

    def go_on(
        self, seconds: float, labels: dict[str, str], *spelled: tuple[str, str, Spelled], **how: Any
    ) -> None:
        """So much time passes; each quarter of a minute the backfill tells of it, and the service asks."""
        until = self.river.clock.now() + seconds
        while (now := self.river.clock.now()) < until:
            self.reads(*spelled, **how)
            self.tell(labels, self.began)
            self.thresholds.look()
            while self.river.clock.now() < now + 15:
                self.river.turn()

    def wrote(self) -> int:
        ours = [write for write in self.river.kube.writes if write.actor == "remediator"]
        return len(self.river.slurm.writes) + len(ours)

    def faults(self) -> list[Incident]:
        """Incidents, without the return of a node that passed its test."""
        return [one for one in self.river.all_incidents() if one.plan != GIVE_BACK]

    def verdicts(self) -> list[str]:
        with self.river.store.read() as connection:
            return list(connection.execute(sa.select(schema.signal.c.verdict)).scalars())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def first(fault: str, witness: str = OWN) -> tuple[str, str, Spelled]:
    return fault, witness, SPELLINGS[fault, witness][0]


@pytest.mark.parametrize("fault", ACTING)
@pytest.mark.parametrize("how", [None, {"well": True}, {"late": 100.0}], ids=["absent", "well", "stale"])
def test_an_alert_that_no_sample_bears_out_touches_nothing(
    fault: str, how: dict[str, Any] | None, site: Site
) -> None:
    site.go_on(45, site.alert(fault), *([] if how is None else [first(fault)]), **(how or {}))
    assert site.river.all_incidents() == []
    assert site.wrote() == 0
    assert any("recorded" in verdict for verdict in site.verdicts())


@pytest.mark.parametrize("fault", ACTING)
def test_an_alert_that_the_samples_bear_out_is_one_incident(fault: str, site: Site) -> None:
    site.go_on(135, site.alert(fault), first(fault))
    (incident,) = site.faults()
    assert (incident.node, incident.rule) == (
        "gpu-0",
        fault if fault != "gpu-remap-failed" else incident.rule,
    )
    assert site.river.slurm.count("drain", "w-gpu-0") == 1


def test_a_counter_that_goes_backwards_touches_nothing(site: Site) -> None:
    """Prometheus' `increase` takes each step back for a reset, and adds the whole counter: the rule fires."""
    now = site.river.clock.now()
    for _ in range(3):
        site.reads()
        wrong = [(at, 900.0 - n % 2) for n, (at, _) in enumerate(samples("set", site.river.clock.now()))]
        site.prometheus.put("remediator_ib_link_downed_total", AGENT | PORT, wrong)
        site.tell(site.alert("ib-flapping"), now)
        site.thresholds.look()
        settle(site.river, 15.0)
    assert (site.river.all_incidents(), site.wrote()) == ([], 0)
    assert any("backwards" in verdict for verdict in site.verdicts())


@pytest.mark.parametrize("fault", sorted(RECORDED))
def test_what_is_only_recorded_stays_so_when_the_samples_bear_it_out(fault: str, site: Site) -> None:
    site.go_on(75, site.alert(fault), first(fault))
    assert (site.river.all_incidents(), site.wrote()) == ([], 0)


def test_another_exporter_alone_is_no_evidence_and_two_are(site: Site) -> None:
    by = [first("ib-flapping", witness) for witness in ("node-exporter", "gpud")]
    site.go_on(90, site.alert("ib-flapping", "node-exporter"), *by)
    assert site.wrote() == 0
    site.go_on(90, site.alert("ib-flapping", "gpud"), *by)
    (incident,) = site.faults()
    assert incident.rule == "ib-flapping"


def test_a_port_the_agent_itself_saw_down_is_not_asked_about(site: Site) -> None:
    """It has read the port; there may be no Prometheus."""
    now = site.river.clock.now()
    pushed = Signal(
        source="agent", node="gpu-0", boot_id="boot-gpu-0", kind="ib-port-down", seen_at=now, received_at=now,
        dedupe="agent:gpu-0:boot-gpu-0:1", detail={"extra": dict(PORT) | {"what": "down"}},
    )  # fmt: skip
    site.river._submit([pushed])
    for _ in range(6):
        settle(site.river, 15.0)
    assert [one.rule for one in site.faults()] == ["ib-port-down"]


def replaced(site: Site, after: float) -> float:
    """The node is gone, and so long after its fault another machine bears its name; when that was."""
    until = site.river.clock.now() + after
    site.river.kube.remove_node("gpu-0")
    site.river.clock.advance(until - site.river.clock.now())
    now = site.river.clock.now()
    site.river.kube.add_node("gpu-0", labels={"pool": "training"}, boot_id="boot-of-another")
    made = {"metadata": {"creationTimestamp": rfc3339(now)}}
    site.river.kube.outside("gpu-0", "created", made, "api-server")
    site.boots = {"boot-gpu-0": 0.0, "boot-of-another": now + 60}
    return now


XID = {"alertname": "x", "node": "gpu-0", "xid": "79", "witness": OWN, **AGENT}
HEAT = {"alertname": "x", "node": "gpu-0", "fault": "gpu-hot", "gpu": "0", "Hostname": "gpu-0"}


def no_boot(site: Site, what: str) -> dict[str, str]:
    return {"xid": XID, "heat": HEAT}.get(what) or site.alert(what, boot="")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", ["xid", "heat", "gpu-sram-uncorrected", "ib-flapping"])
@pytest.mark.parametrize("began", [-240.0, -1.0, 0.0, 60.0, LOOKS_BACK_S - 1])
def test_what_is_told_without_a_boot_never_acts_on_the_next_machine_of_the_name(
    door: str, what: str, began: float, site: Site
) -> None:
    """O16: of our own counters, less than ten minutes old, first delivered after the replacement; also when a
    Prometheus that was restarted lets it begin anew, its window full of the machine before.
    """
    created = replaced(site, 240.0)
    starts = created + began
    site.river.clock.advance(max(starts - created, 0.0) + 20.0)
    spelled = [] if what in {"xid", "heat"} else [first(what)]
    for _ in range(6):
        site.reads(*spelled)
        hot = [(at, 90.0) for at, _ in samples("set", site.river.clock.now())]
        site.prometheus.put("DCGM_FI_DEV_GPU_TEMP", HEAT, hot)
        site.tell(no_boot(site, what), starts, door)
        site.thresholds.look()
        settle(site.river, 15.0)
    assert site.wrote() == 0
    assert site.river.all_incidents() == []


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", ["xid", "gpu-sram-uncorrected"])
@pytest.mark.parametrize("boot", ["boot-gpu-0", "boot-of-another", ""])
def test_what_names_the_boot_of_the_new_machine_or_is_surely_of_it_acts(
    door: str, what: str, boot: str, site: Site
) -> None:
    created = replaced(site, 240.0)
    site.river.clock.advance(LOOKS_BACK_S + 20.0)
    labels = (XID if what == "xid" else site.alert(what, boot="")) | ({"boot_id": boot} if boot else {})
    for _ in range(6):
        site.reads(*([] if what == "xid" else [first(what)]))
        site.tell(labels, created + LOOKS_BACK_S, door)
        site.thresholds.look()
        settle(site.river, 15.0)
    assert len(site.faults()) == (boot != "boot-gpu-0")


def test_an_alert_of_the_machine_before_is_no_second_witness_against_the_next(site: Site) -> None:
    """dcgm-exporter's gauge shows a code on the new one; its health check failed on the old one."""
    created = replaced(site, 240.0)
    health = {"alertname": "x", "node": "gpu-0", "witness": "dcgm-health", **AGENT}
    gauge = XID | {"witness": "dcgm-xid", "boot_id": "boot-of-another"}
    site.river.clock.advance(30.0)
    site.tell(health, created - 20.0)
    site.tell(gauge, created + 20.0)
    for _ in range(6):
        settle(site.river, 15.0)
    assert (site.river.all_incidents(), site.wrote()) == ([], 0)
