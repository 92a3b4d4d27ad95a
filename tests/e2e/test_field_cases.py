"""Field cases that other tests of the lab do not prove in passing, on real servers and by their own logs."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import SLURM_NAMESPACE, WORKERS
from remediator.kube.spare import RETIRED
from tests.e2e import saver
from tests.e2e.alerts import tell
from tests.e2e.full import nodes, spares, taints, was_replaced
from tests.e2e.helpers import STAGE, Json, Servers, Site, Tail, Training, in_order, wait_for
from tests.e2e.test_crashed_jobs import SETTINGS as RESTARTING
from tests.e2e.test_crashed_jobs import all_closed, submit, submit_crashing
from tests.e2e.test_grace import GRACE_S, NEEDS_S, SLACK_S, Saver, kill_wait
from tests.e2e.test_return import accepts
from tests.e2e.times import asked_to_leave_at, drained_at, fenced_at, refused_evictions, requeued_at

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

DEPLOYMENT = "deployment/remediator"
SETTINGS = RESTARTING | {"REMEDIATOR_REQUEUES__PER_JOB": "1", "TZ": "IST-5:30"}
TOLD = 'remediator_signals_received_total{result="accepted",source="agent"}'
REPORTED = "SysLogsXIDError"
REMEDIATIONS = "REMEDIATOR_BUDGETS__MACHINE__REMEDIATIONS"
AHEAD_S = 420
SECOND = 1.0
"""Within which the record and the servers' logs agree."""


@pytest.fixture(scope="module")
def given(lab: Lab) -> Iterator[None]:
    """A controller that restarts failed jobs, holds a job after its second lost machine, lives in Kolkata and
    remembers nothing.
    """
    controller = Site(lab).controller
    variables = {**SETTINGS, STAGE: "move-jobs"}
    lab.kubectl("-n", SLURM_NAMESPACE, "set", "env", DEPLOYMENT, *map("=".join, variables.items()))
    controller.forget()
    yield
    controller.change("set", "env", DEPLOYMENT, *(f"{name}-" for name in SETTINGS))


@pytest.fixture
def site(lab: Lab, given: None) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


@pytest.fixture
def replacing(lab: Lab, given: None) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


def changes_beyond_jobs(servers: Servers) -> list[str]:
    """What our account wanted to change, requeues and the start of jobs apart."""
    return [change for change in servers.changes() if not change.startswith("POST /slurm/v0.0.45/job")]


# --- O05: a job's teardown logs XID 45 on all its nodes -------------------------------------------------


def test_a_crashed_job_with_xid_45_on_all_its_nodes_is_restarted_and_no_node_is_touched(site: Site) -> None:
    """Five times on one GPU, too; and a program's own codes on a node beside them."""
    servers, told = Servers(site.lab), site.controller.metric(TOLD)
    job, cue = submit_crashing(site, "-N2")
    torn = [site.node_of(worker) for worker in job.workers()]
    every = {site.node_of(f"worker-{number}") for number in range(WORKERS)}
    beside = min(every - set(torn))
    cue.touch()
    for node in torn:
        for gpu in (0, 0, 0, 0, 0, 1):
            site.lab.inject.xid(node, 45, gpu)
    for code in (13, 31, 43):
        site.lab.inject.xid(beside, code)
    wait_for("the agents", lambda: site.controller.metric(TOLD) >= told + 7, 90, every=0.3)
    site.moves(job)
    (finding,) = all_closed(site, None, 1)
    assert finding["plan"] == "restart-job"
    assert "without evidence against a node" in finding["sentence"]
    assert (servers.requeues(job.address), servers.requeue_writes()) == (1, 1)
    assert changes_beyond_jobs(servers) == []
    assert site.controller.audit()["ok"]


# --- O23: a job that is requeued for ever ---------------------------------------------------------------


def test_the_requeue_off_one_machine_too_many_ends_held_and_its_owner_is_told(site: Site) -> None:
    """A new controller counts on."""
    servers = Servers(site.lab)
    job = site.train("-N1")
    site.trains(job)
    lose_its_machine(site, job)
    site.moves(job)
    site.controller.change("rollout", "restart", DEPLOYMENT)
    node = lose_its_machine(site, job)
    incident = site.closes(node)["id"]
    found = job.record()
    assert (found["job_state"], found["restart_cnt"], found["hold"]) == (["PENDING"], 2, True)
    assert servers.requeues(job.address) == servers.requeue_writes() == 2
    told = site.controller.told
    release, held = f"scontrol release {job.address}", f"job {job.address} of root is held: 1 other machines"
    wait_for("its owner's message", lambda: release in "\n".join(told(incident, "user:root")), 60, every=0.3)
    wait_for("the operators'", lambda: held in "\n".join(told(incident, "operators")), 60, every=0.3)


def lose_its_machine(site: Site, job: Training) -> str:
    """A GPU under the job falls off the bus; its node."""
    node = site.node_of(job.workers()[0])
    site.lab.inject.xid(node, 79)
    return node


@pytest.mark.slow
def test_a_job_that_crashes_on_one_machine_after_the_other_accuses_neither(site: Site) -> None:
    servers = Servers(site.lab)
    cue = site.lab.layout.shared / f"cue-{time.monotonic_ns()}"
    crash = f"while [ ! -e /shared/{cue.name}-${{SLURM_RESTART_COUNT:-0}} ]; do sleep 0.02; done; exit 1"
    job = submit(site, crash, "--exclusive")
    wait_for("its first run", lambda: job.is_running(0), 120, every=0.2)
    first = job.workers()
    submit(site, "sleep 600", "--exclusive", f"--nodelist={first[0]}", "--job-name=takes-its-place")
    cue.with_name(f"{cue.name}-0").touch()
    site.moves(job)
    assert job.workers() != first
    cue.with_name(f"{cue.name}-1").touch()
    wait_for("its third run", lambda: job.is_running(2), 120, every=0.2)
    assert [one["plan"] for one in all_closed(site, None, 2)] == ["restart-job"] * 2
    assert servers.requeue_writes() == 2
    assert changes_beyond_jobs(servers) == []


# --- O27: a virtual node --------------------------------------------------------------------------------

VIRTUAL, BOOT = "vk-ext-1", "5d8f1c52-0000-4000-8000-000000000000"
PROVIDER, NO_NETWORK = "virtual-kubelet.io/provider", "node.kubernetes.io/network-unavailable"


@pytest.fixture
def serving(site: Site) -> Iterator[dict[str, str]]:
    """Four pods on a virtual node that stopped reporting: their UIDs by name."""
    taint = {"key": PROVIDER, "value": "ext", "effect": "NoSchedule"}
    node = {"metadata": {"name": VIRTUAL, "labels": {"type": "virtual-kubelet"}}, "spec": {"taints": [taint]}}
    wrong = {"Ready": "Unknown", "NetworkUnavailable": "True"}
    conditions = [{"type": kind, "status": status, "reason": "Stopped"} for kind, status in wrong.items()]
    try:
        create(site, {"apiVersion": "v1", "kind": "Node", **node})
        status = {"conditions": conditions, "nodeInfo": {"bootID": BOOT}}
        patch = json.dumps({"status": status})
        site.lab.kubectl("patch", "node", VIRTUAL, "--subresource=status", "--type=merge", "-p", patch)
        for number in range(4):
            create(site, pod("default", f"infer-{number}", VIRTUAL))
        lifecycle = {PROVIDER, NO_NETWORK}
        wait_for("its taints", lambda: lifecycle <= taints(nodes(site)[VIRTUAL]), 60, every=0.2)
        yield uids_on(site, VIRTUAL)
    finally:
        site.lab.kubectl("delete", "node", VIRTUAL, "--ignore-not-found", "--wait=false")
        names = [f"infer-{number}" for number in range(4)]
        site.lab.kubectl("delete", "pod", *names, "--ignore-not-found", "--force", "--grace-period=0")


def create(site: Site, *objects: Json) -> None:
    """As the administrator; a namespace may yet lack its account."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    wait_for("the objects", lambda: site.lab.kubectl("apply", "-f", "-", stdin=body), 60, every=0.3)


def pod(namespace: str, name: str, node: str) -> Json:
    """One that does nothing, on that node whatever taints it has."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "localhost/pause:1", "imagePullPolicy": "Never"}],
        },
    }


def uids_on(site: Site, node: str) -> dict[str, str]:
    """Pods of a node that are not leaving it, DaemonSets' apart: their UIDs by `namespace/name`."""
    found = site.lab.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")["items"]
    meta = [one["metadata"] for one in found]
    stay = [one for one in meta if "deletionTimestamp" not in one and not one.get("ownerReferences")]
    return {f"{one['namespace']}/{one['name']}": one["uid"] for one in stay}


def test_a_virtual_node_is_never_written_whatever_is_said_of_it(site: Site, serving: dict[str, str]) -> None:
    servers, controller = Servers(site.lab), site.controller
    said = f"{VIRTUAL} is in no pool: recorded, never written"
    of_now = {"node": VIRTUAL, "boot_id": BOOT}
    tell(site, {"alertname": "NodeNotReady", **of_now})
    tell(site, {"alertname": "XidFatal", "xid": "79", "witness": "own-counters", **of_now})
    wait_for("both verdicts", lambda: controller.log().count(said) >= 2, 90, every=0.3)
    assert servers.changes() == []
    assert controller.incidents() == []
    shown = nodes(site)[VIRTUAL]
    assert {PROVIDER, NO_NETWORK} <= taints(shown)
    assert not shown["spec"].get("unschedulable")
    assert len(serving) == 4
    assert uids_on(site, VIRTUAL) == serving
    assert len(spares(site)) == 1


# --- O29: whose clock, and whose zone -------------------------------------------------------------------


def test_the_record_agrees_with_the_servers_to_the_second_whatever_zone_and_clock_others_have(
    site: Site,
) -> None:
    """The controller lives in Kolkata, and whoever tells of the fault is seven minutes ahead."""
    shell = ("-n", SLURM_NAMESPACE, "exec", DEPLOYMENT, "-c", "controller", "--")
    zone = site.lab.kubectl(*shell, "date", "+%z")
    assert zone.strip() == "+0530"
    servers = Servers(site.lab)
    job = site.train("-N1")
    site.trains(job)
    (sick,) = job.workers()
    node = site.node_of(sick)
    boot = nodes(site)[node]["status"]["nodeInfo"]["bootID"]
    labels = {"alertname": "XidFatal", "node": node, "xid": "79", "witness": "own-counters", "boot_id": boot}
    began = time.time()
    claimed = int(began) + AHEAD_S
    tell(site, labels, claimed)
    site.moves(job)
    incident = site.closes(node)
    ended = time.time()

    records = [json.loads(line) for line in site.controller.run("audit", "export").splitlines()]
    mine = [one for one in records if one["incident"] == incident["id"]]
    for one in mine:
        assert one["at"].endswith("Z")
        read = datetime.fromisoformat(one["at"].replace("Z", "+00:00")).timestamp()
        assert read == pytest.approx(one["unix"], abs=0.01)
    decision = next(one for one in mine if one["action"] == "decision")
    assert decision["detail"]["evidence"].endswith(f":{claimed}"), "its sender's time is kept beside ours"

    steps = spans(mine)
    happened = {
        "drain-slurm": drained_at(servers, sick),
        "fence-node": fenced_at(servers, node),
        "release-jobs": requeued_at(servers, job.address),
    }
    for step, at in happened.items():
        assert steps[step][0] - SECOND <= at <= steps[step][1] + SECOND, step
    order = [began - SECOND, incident["fault_at"], *happened.values(), steps["prove-resume"][1], ended]
    assert order == sorted(order)
    down = sum(phase["seconds"] for phase in downtime(site, incident["id"], job))
    began_again = job.record()["start_time"]["number"]
    assert began_again - SECOND <= incident["fault_at"] + down <= ended


def spans(records: list[Json]) -> dict[str, tuple[float, float]]:
    """From a step's first record to the one that says that it is done."""
    began: dict[str, float] = {}
    for one in records:
        began.setdefault(one["step"], one["unix"])
    return {one["step"]: (began[one["step"]], one["unix"]) for one in records if one["outcome"] == "done"}


def downtime(site: Site, incident: str, job: Training) -> list[Json]:
    """Where the job's time went."""
    return list(site.controller.story(incident)["downtime"][f"job {job.address}"])


# --- O28: what budgets refuse ---------------------------------------------------------------------------

LEFT = {"ns1": "infer-0", "ns2": "db-1"}


@contextlib.contextmanager
def kept(site: Site, node: str) -> Iterator[None]:
    """Two pods on the node, and for as long as this lasts budgets that let none of them go."""
    for namespace in LEFT:
        create(site, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for namespace, name in LEFT.items():
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}
        meta = {"name": f"{name}-budget", "namespace": namespace}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}
        create(site, budget, pod(namespace, name, node))
    try:
        yield
    finally:
        for namespace in LEFT:
            site.lab.kubectl("-n", namespace, "delete", "pdb", "--all")


def left_on(site: Site, node: str) -> dict[str, str]:
    """Those of the two that are there and not leaving, with their UIDs."""
    return {name: uid for name, uid in uids_on(site, node).items() if name.split("/")[0] in LEFT}


@pytest.fixture
def tidy(replacing: Site) -> Iterator[Site]:
    """The namespaces of the pods are gone afterwards."""
    yield replacing
    replacing.lab.kubectl("delete", "namespace", *LEFT, "--ignore-not-found", "--wait=false")


@pytest.mark.slow
def test_what_budgets_keep_is_named_and_never_recorded_as_gone(tidy: Site) -> None:
    site, node = tidy, tidy.node_of("worker-0")
    servers, names = Servers(site.lab), {f"{namespace}/{name}" for namespace, name in LEFT.items()}
    (spare,) = spares(site)
    with kept(site, node):
        before = left_on(site, node)
        assert set(before) == names
        site.lab.inject.xid(node, 79)
        with site.explained():
            wait_for("both refusals", lambda: refused_evictions(servers) == names, 120, every=0.3)
        site.controller.change("rollout", "restart", DEPLOYMENT)
        again = Servers(site.lab)
        wait_for("the next controller's tries", lambda: refused_evictions(again) == names, 120, every=0.3)
        (incident,) = site.controller.incidents(node)
        assert incident["state"] in {"open", "held"}
        assert_not_done(site.controller.story(incident["id"]))
        assert RETIRED not in taints(nodes(site)[node])
        assert left_on(site, node) == before
    assert site.closes(node, 120)["id"] == incident["id"]
    assert was_replaced(site, node, "worker-0", spare)
    steps = site.controller.story(incident["id"])["steps"]
    assert {step["state"] for step in steps} == {"done"}
    assert site.controller.audit()["ok"]


def assert_not_done(story: Json) -> None:
    """The record names both pods, says that it tries again, and nothing that comes after has begun."""
    steps = {step["name"]: step for step in story["steps"]}
    told = [line for line in story["timeline"] if line["step"] == "evict-pods"]
    tries = [line["why"] for line in told if line["what"] == "retry"]
    assert any(all(name in why for name in LEFT.values()) for why in tries)
    assert "done" not in {line["what"] for line in told}
    assert steps["evict-pods"]["state"] != "done"
    for later in ("detach-node", "admit-spare", "rejoin-slurm", "close"):
        assert (steps[later]["state"], steps[later]["attempts"]) in {("waiting", 0), ("pending", 0)}


# --- O11: draining is not drained -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_leaves_as_soon_as_a_job_that_needs_70_of_its_120_seconds_is_gone(replacing: Site) -> None:
    site = replacing
    shutil.copy(Path(str(saver.__file__)), site.lab.layout.shared)
    with kill_wait(site.lab, GRACE_S):
        servers, ctld = Servers(site.lab), Tail(site.lab.slurmctld_log)
        slow = Saver(site, "seventy", NEEDS_S)
        wait_for("the job", lambda: slow.times("START"), 150, every=0.2)
        (sick,) = slow.job.workers()
        site.lab.inject.xid(site.node_of(sick), 79)
        site.closes(site.node_of(sick), NEEDS_S + 120)
    assert NEEDS_S <= slow.grace(ctld) <= NEEDS_S + SLACK_S
    gone, asked = requeued_at(servers, slow.job.address), asked_to_leave_at(servers, sick)
    assert gone <= asked[0] <= gone + SLACK_S
    assert asked[-1] < slow.times("TERM")[0] + GRACE_S, "the operator's budget of busy workers is waited for"


# --- O19: our own repair is no second fault, and a second one is a person's -----------------------------


@pytest.mark.slow
def test_what_a_repair_causes_opens_nothing_and_the_second_fault_stays_out_for_a_person(site: Site) -> None:
    """Another tool's condition from before the reboot stays, and alerts tell what our drain and fence look
    like. The machine's count is in the store: the controller that refuses is a new one.
    """
    job = site.train("-N1")
    site.trains(job)
    (worker,) = job.workers()
    node = site.node_of(worker)
    report(site, node)
    site.lab.inject.xid(node, 79)
    site.moves(job)
    site.closes(node)
    servers = Servers(site.lab)
    for name in ("KubeNodeUnschedulable", "KubeNodeNotReady", "SlurmNodeDrained"):
        tell(site, {"alertname": name, "node": node})
    site.lab.inject.new_boot(node)
    wait_for("the new boot", lambda: accepts(site, node), 150, every=2.0)
    site.closes(node)
    site.controller.change("set", "env", DEPLOYMENT, f"{REMEDIATIONS}=1")
    try:
        assert plans(site) == ["give-back", "move-jobs"]
        assert (servers.drains(worker), servers.fences(node)) == (0, 1)
        site.lab.inject.xid(node, 79)
        with site.explained():
            wait_for("the second fault", lambda: len(plans(site)) == 3, 120, every=0.5)
        second = site.closes(node)
        why = "times within 7 days: it stays out until a person has looked"
        assert why in second["sentence"]
        told = site.controller.told
        wait_for("a page", lambda: why in "\n".join(told(second["id"], "operators")), 60, every=0.3)
        assert RETIRED not in taints(nodes(site)[node])
        assert "remediator.dev/fenced" in taints(nodes(site)[node])
    finally:
        write_condition(site, node, {"$patch": "delete", "type": REPORTED})
        site.controller.change("set", "env", DEPLOYMENT, f"{REMEDIATIONS}-")


def plans(site: Site) -> list[str]:
    """Of all incidents, newest first."""
    return [str(one["plan"]) for one in site.controller.incidents()]


def report(site: Site, node: str) -> None:
    """NVSentinel says of the node that there was an XID 79, and does not take it back."""
    at = datetime.fromtimestamp(time.time()).astimezone().isoformat(timespec="seconds")
    found = {
        "type": REPORTED, "status": "True", "reason": "SysLogsXIDErrorIsNotHealthy",
        "message": "ErrorCode:79 PCI:0000:18:00 GPU_UUID:G x;",
        "lastHeartbeatTime": at, "lastTransitionTime": at,
    }  # fmt: skip
    write_condition(site, node, found)


def write_condition(site: Site, node: str, found: Json) -> None:
    """As another tool does."""
    patch = json.dumps({"status": {"conditions": [found]}})
    site.lab.kubectl("patch", "node", node, "--subresource=status", "--type=strategic", "-p", patch)
