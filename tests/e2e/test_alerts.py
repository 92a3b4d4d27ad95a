"""Exporter → Prometheus → our rules → Alertmanager → webhook, and the backfill beside it: all of them real.

In a lab of its own: an alert lasts ten minutes, longer than other tests leave a node broken.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest

from deploy.lab import monitoring
from deploy.lab.api import Lab
from deploy.lab.spec import ALERTMANAGER_PORT, CONTROL_PLANE, GPU_PCI
from remediator.agent.bursts import SPACING_S
from tests.docs.snippets import snippets
from tests.e2e.conftest import KILL_WAIT, take_down_orphans
from tests.e2e.helpers import ONE_OF_EACH, Servers, Site, in_order, wait_for
from tests.e2e.prometheus import ask

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

FAILED = 20
"""What DCGM says of a health check."""
NOBODY = "system:serviceaccount:slurm:nobody"
ACCOUNT = "REMEDIATOR_HTTP__AGENT_ACCOUNT"
# Each test has a GPU of its own: the alerts of the tests before go on for ten minutes.
THREE_DOORS, TWO_WITNESSES, GAUGE_ALONE, OWN_COUNTER, HOT = 1, 2, 3, 4, 5


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab whose alerts about GPUs reach the service, which looks for lost ones as often as it may."""
    take_down_orphans()
    found = Lab(f"alerts-{os.getpid()}")
    found.up(kill_wait=KILL_WAIT)
    try:
        Site(found).controller.change(
            "set", "env", "deployment/remediator", "REMEDIATOR_WEBHOOK__BACKFILL_S=6"
        )
        yield found
    finally:
        found.down()


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


def counted(site: Site, door: str, result: str = "accepted") -> float:
    return site.controller.metric(f'remediator_signals_received_total{{result="{result}",source="{door}"}}')


def dcgm_fails(site: Site, node: str, gpu: int) -> None:
    """Both of DCGM's witnesses: the last XID, and a health check."""
    site.lab.inject.dcgm(node, gpu, "xid", 79)
    site.lab.inject.dcgm(node, gpu, "PCIE", FAILED)


def has_told(site: Site, before: float) -> bool:
    """The agents' door has taken more signals than that."""
    return counted(site, "agent") > before


def looked(site: Site) -> float:
    """How often the backfill had an answer from both of its sources."""
    sample = 'remediator_backfill_requests_total{{outcome="ok",source="{}"}}'
    return min(site.controller.metric(sample.format(name)) for name in ("alertmanager", "prometheus"))


@contextlib.contextmanager
def alertmanager_holds(site: Site, token: str) -> Iterator[None]:
    """Alertmanager with another token; it reads the file at every request."""
    file = monitoring.token_file(site.lab.layout)
    right = file.read_text()
    file.write_text(token)
    try:
        yield
    finally:
        file.write_text(right)


def test_a_fault_by_backfill_webhook_and_agent_three_times_each_is_one_incident(site: Site) -> None:
    """In the order that is least natural: first the alert is lost at the door, last comes the kernel line."""
    servers = Servers(site.lab)
    job = site.train("-N1")
    site.trains(job)
    (sick,) = job.workers()
    node = site.node_of(sick)
    begin = {door: counted(site, door) for door in ("webhook", "backfill", "agent")}

    with alertmanager_holds(site, "not-the-token"):
        turned_away = counted(site, "webhook", "unauthenticated")
        dcgm_fails(site, node, THREE_DOORS)
        wait_for("a 401", lambda: counted(site, "webhook", "unauthenticated") > turned_away, 150, every=0.5)
        site.moves(job)
        looks = looked(site)
        wait_for("three more looks", lambda: looked(site) >= looks + 3, 120, every=0.5)
        assert counted(site, "webhook") == begin["webhook"]
        assert counted(site, "backfill") >= begin["backfill"] + 3

    for _ in range(3):  # killed, it forgets whom it has told
        told = counted(site, "webhook")
        site.lab.inject.restart("alertmanager")
        wait_for("the webhook", lambda told=told: counted(site, "webhook") > told, 120, every=0.5)  # type: ignore[misc]

    incident = site.closes(node)
    for number in range(3):
        site.lab.inject.xid(node, 79, gpu=THREE_DOORS)
        wait_for("the agent", partial(has_told, site, begin["agent"] + number), 90, every=0.5)
        time.sleep(SPACING_S + 0.5)  # the agent tells lines of one burst no closer to each other

    said = f"{node} is already out of service by incident {incident['id']}"
    wait_for("the agent's verdicts", lambda: site.controller.log().count(said) >= 3, 90, every=0.5)
    assert [found["id"] for found in site.controller.incidents(node)] == [incident["id"]]
    assert servers.counts(sick, node, job.address) == ONE_OF_EACH
    assert job.terms() == {"0": 1}
    assert site.controller.audit()["ok"]


def test_a_gauge_travels_to_a_drain_with_a_second_witness_and_is_recorded_without(site: Site) -> None:
    servers = Servers(site.lab)
    sick, alone = "worker-0", "worker-1"
    node, gauge_only = site.node_of(sick), site.node_of(alone)
    pushed = counted(site, "agent")
    site.lab.inject.dcgm(gauge_only, GAUGE_ALONE, "xid", 79)
    dcgm_fails(site, node, TWO_WITNESSES)
    assert site.closes(node, 240)["rule"] == "gpu-off-the-bus"
    said = f"{gauge_only}: seen by dcgm-xid only: recorded until a second witness agrees"
    wait_for("the verdict on the gauge", lambda: said in site.controller.log(), 240, every=1.0)
    assert site.controller.incidents(gauge_only) == []
    assert servers.drains(sick) == servers.node_writes(sick) == 1
    assert servers.drains(alone) == servers.node_writes(alone) == 0
    assert servers.fences(node) == servers.fences() == 1
    assert counted(site, "agent") == pushed


def test_the_agents_counter_tells_what_its_pushes_could_not(site: Site) -> None:
    servers = Servers(site.lab)
    worker = "worker-2"
    node = site.node_of(worker)
    site.controller.change("set", "env", "deployment/remediator", f"{ACCOUNT}={NOBODY}")
    try:
        site.lab.inject.xid(node, 79, gpu=OWN_COUNTER)
        wait_for("the rules to know the counter", lambda: recorded(OWN_COUNTER), 150, every=0.5)
        site.lab.inject.xid(node, 79, gpu=OWN_COUNTER)
        incident = site.closes(node, 240)
        assert (incident["rule"], counted(site, "agent")) == ("gpu-off-the-bus", 0)
        assert counted(site, "agent", "refused") > 0
        assert servers.drains(worker) == servers.node_writes(worker) == 1
    finally:
        site.controller.change("set", "env", "deployment/remediator", f"{ACCOUNT}-")


@pytest.mark.slow
def test_heat_travels_from_the_driver_to_a_drain_once_the_samples_were_asked_for_again(site: Site) -> None:
    servers = Servers(site.lab)
    sick, glitch = "worker-0", "worker-1"
    node, other = site.node_of(sick), site.node_of(glitch)
    site.lab.inject.heat(node, HOT, 93)
    site.lab.inject.nvml(other, HOT, "temperature", 2**31 - 16)
    wait_for("an incident", lambda: site.controller.incidents(node), 240, every=1.0)
    assert site.closes(node)["rule"] == "thermal-hard"
    held = 'remediator_thresholds_asked_total{outcome="holds",reason=""}'
    assert site.controller.metric(held) >= 1
    assert servers.drains(sick) == servers.node_writes(sick) == 1
    assert site.controller.incidents(other) == []


def recorded(gpu: int) -> bool:
    """Whether the rules have seen the agents' XID counter for this GPU."""
    return bool(ask(f'remediator:agent_xid:total{{xid="79", pci="{GPU_PCI[gpu]}"}}'))


@pytest.fixture
def only_we_knock(site: Site) -> Iterator[None]:
    """Alertmanager is away: it may have news of what other tests broke, and tells it again when it failed."""
    site.lab.inject.kill("alertmanager")
    yield
    site.lab.inject.start("alertmanager")


@pytest.mark.usefixtures("only_we_knock")
def test_only_the_two_tokens_open_the_door_and_none_is_written_down(site: Site) -> None:
    secret = site.lab.api.get(f"/api/v1/namespaces/slurm/secrets/{monitoring.SECRET}")["data"]
    valid = [base64.b64decode(token).decode() for token in secret.values()]
    strangers = ["not-the-token-but-long-enough-to-be-found", valid[0][:-1], valid[0] + valid[1]]
    refused, taken = counted(site, "webhook", "unauthenticated"), counted(site, "webhook")
    servers = Servers(site.lab)
    assert [knock(site, token) for token in strangers] == [401, 401, 401]
    assert knock(site, None) == 401
    assert counted(site, "webhook", "unauthenticated") == refused + 4
    assert counted(site, "webhook") == taken
    assert [knock(site, token) for token in valid] == [200, 200]
    assert counted(site, "webhook") == taken + 2
    assert servers.writes() == 0
    logs = [file for file in site.lab.layout.logs.rglob("*.log") if file.is_file()]
    texts = {file.name: file.read_text(errors="replace") for file in logs}
    assert {"alertmanager.log", "0.log"} <= set(texts)
    told = [name for name, text in texts.items() for token in {*valid, *strangers} if token in text]
    assert told == []


def knock(site: Site, token: str | None) -> int:
    """Status of a notification about a node that does not exist, sent with this token."""
    labels = {"alertname": "Knock", "node": "no-such-node", "xid": "79", "witness": "own-counters"}
    alert = {"status": "firing", "labels": labels, "startsAt": "2026-01-01T00:00:00Z"}
    body = json.dumps({"version": "4", "alerts": [alert]}).encode()
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{site.controller.url}/v1/alerts", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_pages_test_alert_shows_the_way_and_changes_nothing(site: Site) -> None:
    (command,) = (text for text in snippets("runbooks/alertmanager.md", "sh") if "amtool" in text)
    servers, taken = Servers(site.lab), counted(site, "webhook")
    address = f"ALERTMANAGER=http://{CONTROL_PLANE}:{ALERTMANAGER_PORT}"
    site.lab.exec(["env", address, "sh", "-c", command])
    wait_for("the webhook", lambda: counted(site, "webhook") > taken, 90, every=0.3)
    said = "no-such-node is not an exact name in the inventory: recorded, nothing is written"
    wait_for("the verdict", lambda: said in site.controller.log(), 90, every=0.3)
    assert servers.writes() == 0
