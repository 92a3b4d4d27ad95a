"""The operator's contract on the lab: what the remediator may rely on, and what it must not."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest
import urllib3

from deploy.lab import network
from deploy.lab.api import Lab
from deploy.lab.inject import processes_running
from deploy.lab.slinky import tokens
from deploy.lab.slinky.model import DELETION_COST, NODE_CORDON_REASON, POD_CORDON, POD_PROTECT
from tests.e2e.helpers import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

WORKER = "worker-0"
FOREIGN = "remediator: 7 XID 79"
TERMINATING = "slurm-operator: Pod is terminating"
Json = dict[str, Any]


class Cluster:
    """The lab as this test looks at it: one worker, its pod, its record."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def pod(self, name: str = WORKER) -> Json:
        found: Json = json.loads(
            self.lab.kubectl("-n", "slurm", "get", "pod", name, "-o", "json", check=False) or "{}"
        )
        return found

    def uid(self, name: str = WORKER) -> str:
        return str(self.pod(name).get("metadata", {}).get("uid", ""))

    def spare(self) -> str:
        """The node behind the spare taint: another one after each replacement."""
        nodes = self.lab.api.get("/api/v1/nodes")["items"]
        (name,) = (n["metadata"]["name"] for n in nodes if "remediator.dev/spare" in str(n["spec"]))
        return str(name)

    def node_of(self, name: str = WORKER) -> str:
        return str(self.pod(name).get("spec", {}).get("nodeName", ""))

    def annotation(self, key: str, name: str = WORKER) -> str | None:
        found = self.pod(name).get("metadata", {}).get("annotations", {}).get(key)
        return None if found is None else str(found)

    def protected(self) -> bool:
        return bool(self.pod().get("metadata", {}).get("labels", {}).get(POD_PROTECT) == "true")

    def conditions(self, name: str = WORKER) -> set[str]:
        found = self.pod(name).get("status", {}).get("conditions", [])
        return {c["type"] for c in found if c["status"] == "True"}

    def record(self, name: str = WORKER) -> Json:
        text = self.lab.slurm("scontrol", "show", "node", name, "--json", check=False)
        nodes = json.loads(text or "{}").get("nodes") or [{}]
        return dict(nodes[0])

    def state(self, name: str = WORKER) -> set[str]:
        return set(self.record(name).get("state") or ())

    def reason(self, name: str = WORKER) -> str:
        return str(self.record(name).get("reason") or "")

    def placed_on(self, name: str = WORKER) -> str:
        return str(json.loads(self.record(name).get("comment") or "{}").get("node", ""))

    def idle(self, name: str = WORKER) -> bool:
        bad = {"DRAIN", "DOWN", "NOT_RESPONDING", "ALLOCATED", "MIXED", "COMPLETING"}
        state = self.state(name)
        return "IDLE" in state and not state & bad

    def set_state(self, state: str, reason: str = "") -> None:
        words = ["update", f"nodename={WORKER}", f"state={state}", *([f"reason={reason}"] if reason else [])]
        self.lab.slurm("scontrol", *words)

    def submit(self, seconds: int) -> str:
        script = f"#!/bin/bash\nsleep {seconds}\n"
        options = ["--parsable", "--requeue", f"--nodelist={WORKER}", "--exclusive", "--output=/dev/null"]
        job = self.lab.slurm("sbatch", *options, stdin=script).strip()
        until(lambda: self.job(job)["job_state"] == ["RUNNING"], 90, "job runs")
        return job

    def job(self, job: str) -> Json:
        return dict(json.loads(self.lab.slurm("scontrol", "show", "job", job, "--json"))["jobs"][0])

    def cancel(self, job: str) -> None:
        self.lab.slurm("scancel", job, check=False)
        until(lambda: self.job(job)["job_state"][0] not in ("RUNNING", "PENDING"), 90, "job is cancelled")

    def evict(self) -> CompletedProcess[str]:
        path = f"/api/v1/namespaces/slurm/pods/{WORKER}/eviction"
        metadata = {"name": WORKER, "namespace": "slurm"}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        command = [str(self.lab.layout.binary("kubectl")), "create", "--raw", path, "-f", "-"]
        return self.lab.entry().run(command, stdin=json.dumps(body), check=False)

    def delete_pod(self, name: str = WORKER) -> None:
        """A plain DELETE; returns once another pod of that name is Ready."""
        uid = self.uid(name)
        self.lab.kubectl("-n", "slurm", "delete", "pod", name, "--wait=false")
        until(lambda: self.uid(name) not in ("", uid), 180, f"{name} is made again")
        until(lambda: "Ready" in self.conditions(name), 150, f"{name} is Ready")


def until(holds: Callable[[], bool], seconds: float, what: str) -> float:
    """Seconds until `holds()`; fails after `seconds`."""
    start = time.monotonic()
    wait_for(what, holds, seconds, every=0.2)
    return time.monotonic() - start


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    """A cluster whose first worker is idle, and is again afterwards."""
    found = Cluster(lab)
    until(found.idle, 150, f"{WORKER} is idle before the test")
    yield found
    node = found.node_of()
    if node:
        lab.kubectl("uncordon", node)
        lab.kubectl("annotate", "node", node, f"{NODE_CORDON_REASON}-")
    lab.slurm("scancel", "--nodelist", WORKER, check=False)
    lab.slurm("scontrol", "update", f"nodename={WORKER}", "state=resume", check=False)
    until(found.idle, 150, f"{WORKER} is idle after the test")
    until(lambda: found.annotation(POD_CORDON) is None, 150, "pod-cordon is gone after the test")


def test_cordon_drains_and_uncordon_undrains(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    node = cluster.node_of()
    cluster.lab.kubectl("cordon", node)
    record_property("drained after s", until(lambda: "DRAIN" in cluster.state(), 25, "DRAIN"))
    expected = f"slurm-operator: Node ({node}) was cordoned, Pod (slurm/{WORKER}) must be cordoned"
    assert cluster.reason() == expected
    assert cluster.annotation(POD_CORDON) == "true"
    until(lambda: "SlurmNodeStateDrain" in cluster.conditions(), 25, "the pod shows Drain")
    cluster.lab.kubectl("uncordon", node)
    record_property("undrained after s", until(lambda: "DRAIN" not in cluster.state(), 25, "undrained"))
    until(lambda: cluster.annotation(POD_CORDON) is None, 25, "the annotation is gone")
    until(lambda: not cluster.reason(), 25, "no reason is left")


def test_cordon_reason_annotation_makes_an_operators_drain(cluster: Cluster) -> None:
    node = cluster.node_of()
    cluster.lab.kubectl("annotate", "node", node, f"{NODE_CORDON_REASON}={FOREIGN}")
    cluster.lab.kubectl("cordon", node)
    until(lambda: "DRAIN" in cluster.state(), 25, "DRAIN")
    assert cluster.reason() == f"slurm-operator: {FOREIGN}"


def test_foreign_drain_is_left_alone_by_cordon_and_uncordon(cluster: Cluster) -> None:
    node = cluster.node_of()
    cluster.set_state("drain", FOREIGN)
    for verb in ("cordon", "uncordon"):
        cluster.lab.kubectl(verb, node)
        time.sleep(4)  # the operator would have acted within 2 s
        assert "DRAIN" in cluster.state()
        assert cluster.reason() == FOREIGN
        assert cluster.annotation(POD_CORDON) is None


@pytest.mark.slow
def test_reason_written_over_the_operators_leaves_a_cordon_behind(cluster: Cluster) -> None:
    node = cluster.node_of()
    cluster.lab.kubectl("cordon", node)
    until(lambda: "DRAIN" in cluster.state(), 25, "DRAIN")
    cluster.set_state("drain", FOREIGN)
    cluster.lab.kubectl("uncordon", node)
    time.sleep(4)  # the operator would have acted within 2 s
    assert "DRAIN" in cluster.state()
    assert cluster.annotation(POD_CORDON) == "true"
    seen = cluster.lab.slurmctld_log.stat().st_size
    cluster.set_state("undrain")
    until(lambda: cluster.annotation(POD_CORDON) is None, 90, "the next resync finds the annotation")
    with cluster.lab.slurmctld_log.open() as log:
        log.seek(seen)
        assert f"{WORKER} state set to DRAIN" in log.read(), "it drained once more, for a moment"


@pytest.mark.slow
def test_busy_worker_is_not_evicted_until_some_time_after_its_job(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    job = cluster.submit(600)
    record_property("protected after s", until(cluster.protected, 90, "pod-protect"))
    refused = cluster.evict()
    assert refused.returncode != 0
    assert "disruption budget" in refused.stderr
    assert cluster.job(job)["job_state"] == ["RUNNING"]
    time.sleep(4)  # the operator's own writes make it look once more
    cluster.cancel(job)
    assert cluster.evict().returncode != 0, "the protection outlives the job"
    record_property("unprotected after s", until(lambda: not cluster.protected(), 90, "pod-protect is gone"))


def test_eviction_right_at_job_start_is_accepted_and_requeues(cluster: Cluster) -> None:
    """Before the operator has looked: it stands still, for it may be quicker than our commands."""
    until(lambda: not cluster.protected(), 90, "pod-protect of an earlier job is gone")
    (operator,) = processes_running(cluster.lab.node("sys-0").group, "deploy.lab.slinky")
    os.kill(operator, signal.SIGSTOP)
    try:
        job = cluster.submit(600)
        assert cluster.evict().returncode == 0
    finally:
        os.kill(operator, signal.SIGCONT)
    until(lambda: cluster.job(job)["job_state"] == ["PENDING"], 90, "the job is requeued")
    until(lambda: cluster.pod().get("status", {}).get("phase") == "Running", 150, "the worker is back")
    cluster.cancel(job)


def test_deleted_busy_pod_is_down_and_stays_down_on_its_node(cluster: Cluster) -> None:
    node = cluster.node_of()
    job = cluster.submit(600)
    cluster.delete_pod()
    until(lambda: cluster.job(job)["restart_cnt"] == 1, 60, "the job is requeued")
    until(lambda: cluster.job(job)["job_state"] == ["PENDING"], 90, "the old run is gone")
    assert cluster.node_of() == node
    until(lambda: "NOT_RESPONDING" not in cluster.state(), 90, "the new slurmd answers")
    for verb in ("cordon", "uncordon"):
        cluster.lab.kubectl(verb, node)
        time.sleep(3)  # the operator would have acted within 2 s
    cluster.set_state("undrain")
    assert "DOWN" in cluster.state()
    cluster.set_state("resume")
    until(cluster.idle, 90, "RESUME brings it back")
    cluster.cancel(job)


def test_pod_that_moves_is_idle_again_whoever_drained_it(cluster: Cluster) -> None:
    home, spare, kubectl = cluster.node_of(), cluster.spare(), cluster.lab.kubectl
    cluster.set_state("drain", FOREIGN)
    kubectl("cordon", home)
    kubectl("taint", "node", spare, "remediator.dev/spare-", "remediator.dev/worker=true:NoSchedule")
    try:
        cluster.delete_pod()
        assert cluster.node_of() == spare
        until(lambda: cluster.placed_on() == spare, 90, "the comment names the new node")
        until(cluster.idle, 90, "the node is idle")
        assert FOREIGN not in cluster.reason()
    finally:
        kubectl("uncordon", home)
        kubectl("taint", "node", spare, "remediator.dev/worker-", "remediator.dev/spare=true:NoSchedule")
        cluster.delete_pod()
    assert cluster.node_of() == home
    until(lambda: cluster.placed_on() == home, 90, "the comment names the old node again")


def test_pod_without_a_slurm_record_is_deleted(cluster: Cluster) -> None:
    uid = cluster.uid()
    cluster.lab.slurm("scontrol", "delete", f"nodename={WORKER}")
    until(lambda: cluster.uid() not in ("", uid), 90, "another pod")
    until(cluster.idle, 150, "it registers")


def test_scale_in_takes_the_cheapest_worker_and_scale_out_brings_it_back(cluster: Cluster) -> None:
    kubectl = cluster.lab.kubectl
    kubectl("-n", "slurm", "annotate", "pod", WORKER, f"{DELETION_COST}=-1000")
    kubectl("-n", "slurm", "scale", "nodeset", "worker", "--replicas=3")
    try:
        until(lambda: not cluster.uid(), 180, f"{WORKER} is gone")
        assert cluster.uid("worker-3")
    finally:
        kubectl("-n", "slurm", "scale", "nodeset", "worker", "--replicas=4")
    until(lambda: "NOT_RESPONDING" not in cluster.state() and cluster.uid() != "", 90, "it is back")
    until(lambda: "Ready" in cluster.conditions(), 150, "it is Ready")


def test_cordon_while_slurmrestd_is_away_drains_after_its_return(cluster: Cluster) -> None:
    cluster.lab.inject.kill("slurmrestd")
    try:
        cluster.lab.kubectl("cordon", cluster.node_of())
        time.sleep(4)  # the operator would have acted within 2 s
        assert "DRAIN" not in cluster.state()
    finally:
        cluster.lab.inject.start("slurmrestd")
    until(lambda: "DRAIN" in cluster.state(), 90, "DRAIN")
    reasons = cluster.lab.kubectl("-n", "slurm", "get", "events", "-o", "jsonpath={.items[*].reason}")
    assert "SyncFailed" in reasons.split()


@pytest.mark.slow
def test_token_is_renewed_before_it_ends(cluster: Cluster) -> None:
    lab, lifetime = cluster.lab, 30
    token: Json = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "Token",
        "metadata": {"name": "short", "namespace": "slurm"},
        "spec": {
            "username": "slurm",
            "lifetime": f"{lifetime}s",
            "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
        },
    }

    def held() -> str:
        words = ["-n", "slurm", "get", "secret", "short-jwt-slurm", "-o", "jsonpath={.data.SLURM_JWT}"]
        return base64.b64decode(lab.kubectl(*words, check=False)).decode()

    lab.kubectl("apply", "-f", "-", stdin=json.dumps(token))
    try:
        until(lambda: held() != "", 60, "the first token")
        key = (lab.layout.slurm_etc / "jwt.key").read_bytes()
        first = held()
        until(lambda: held() != first, 2 * lifetime, "the second token")
        claims = tokens.claims_of(held(), key)
        assert claims["iat"] < tokens.claims_of(first, key)["exp"], "the first one still held"
        assert claims["sun"] == "slurm"
        assert claims["exp"] - claims["iat"] == lifetime
        assert "nodes" in json.loads(rest_nodes(lab, held()))
    finally:
        lab.kubectl("-n", "slurm", "delete", "token", "short")


def rest_nodes(lab: Lab, jwt: str) -> str:
    """The answer of slurmrestd to a holder of this token."""
    pid = lab.control.first_pid()
    assert pid is not None
    url = f"{lab.slurmrestd_url}/slurm/v0.0.44/nodes/"
    headers = {"X-SLURM-USER-TOKEN": jwt}
    return network.inside(pid, lambda: urllib3.request("GET", url, headers=headers, timeout=10).data).decode()
