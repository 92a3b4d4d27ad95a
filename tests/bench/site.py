"""The lab as the latency benchmarks use it: nodes to break, servers to ask directly, and the way back."""

from __future__ import annotations

import json
import math
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

from deploy.lab.api import Lab
from deploy.lab.spec import NODES, SLURM_NAMESPACE
from remediator.actuators.cluster import KubeCluster
from remediator.clock import SystemClock
from remediator.kube import paths
from remediator.kube.fence import FENCED
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.reflector import Reflector
from remediator.kube.session import connect
from slurm_bridge.rest.backend import RestSlurm
from tests.bench import machine
from tests.bench.auditlog import AuditLog
from tests.bench.ctldlog import CtldLog

HOME = "sys-0"
DATA = "var/lib/remediator"
DEADLINE_S = 5.0
REST_S, REST_BUSY, REST_PATIENCE_S = 0.3, 0.3, 10.0
"""A lab at rest takes about 0.15 of two processors."""
AGENTS = sum(spec.gpus > 0 for spec in NODES)
MEASURED = {"REMEDIATOR_BUDGETS__ENABLED": "false", "REMEDIATOR_POOLS__TRAINING__STAGE": "move-jobs"}
"""No budget in the way, and the river up to the moved jobs: a sample must not use up the one spare."""
_BENCH_TAINT = {"key": "remediator.dev/bench", "effect": "PreferNoSchedule"}


class Lost(Exception):
    """The river did not do what a sample waits for."""


class Site:
    """A running lab with an empty store and MEASURED settings. The calling thread must be in its network."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.clock = SystemClock()
        self.session = connect(lab.layout.kubeconfig, clock=self.clock)
        self.cluster = KubeCluster(self.session, self.clock)
        token = lab.token(lifespan=7200)
        self.slurm = RestSlurm(lab.slurmrestd_url, "slurm", lambda: token, self.clock)
        self.ctld = CtldLog(lab.slurmctld_log)
        self.audit = AuditLog(lab.apiserver_audit)
        self.cordoned_at: dict[str, float] = {}
        self.nodes = self._watch_nodes()
        self.worker_on = self._workers()
        self.url = self._url()
        self._door = HTTPConnection(self.url.removeprefix("http://"), timeout=DEADLINE_S)

    def prepare(self) -> None:
        """A fresh controller with MEASURED settings; its first answer is the sign that it is ready."""
        self._kubectl("scale", "deployment/remediator", "--replicas=0")
        pods = (
            f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fname%3Dremediator"
        )
        self.until("the old controller to end", lambda: not self.lab.api.get(pods)["items"], 40)
        for file in self.store_file.parent.iterdir():
            file.unlink()
        for node in self.worker_on:
            self._give_back(node)
        self._set(*(f"{name}={value}" for name, value in MEASURED.items()))
        self._kubectl("scale", "deployment/remediator", "--replicas=1")
        self._kubectl("rollout", "status", "deployment/remediator", "--timeout=60s")
        # An agent that could not reach the old controller backs off for up to 10 s.
        self.until("every agent to be heard", lambda: self._metric("agents_heard") >= AGENTS, 60)

    def restore(self) -> None:
        """Budgets and stage as they were."""
        self._set(*(f"{name}-" for name in MEASURED))
        self.nodes.stop()

    def _set(self, *variables: str) -> None:
        self._kubectl("set", "env", "deployment/remediator", *variables)

    @property
    def store_file(self) -> Path:
        """The controller's database, as seen from outside its pod."""
        return self.lab.layout.disk(HOME) / DATA / "remediator.db"

    # one sample's beginning and end

    def await_boot(self, node: str) -> str:
        """The node's boot id, once Kubernetes reports it: evidence of a boot it does not know has to wait."""
        boot = (self.lab.node_dir(node) / "boot_id").read_text().strip()
        self.until(f"the boot id of {node}", lambda: self.view(node).boot_id == boot, 30)
        return boot

    def recover(self, node: str) -> None:
        """Wait for the incident to close, give the node back to Kubernetes and Slurm, and boot it anew."""
        self.until("the incident to close", lambda: self._metric("incidents_open") == 0, 60, every=0.05)
        self._give_back(node)
        self.until(f"{node} to be schedulable", lambda: not self.view(node).unschedulable, 10)
        self.cordoned_at.pop(node, None)
        self.lab.inject.new_boot(node)

    def _give_back(self, node: str) -> None:
        """In this order: the operator takes a cordoned node without a reason for its own to drain."""
        view = self.view(node)
        for taint in view.taints:
            if taint.key == FENCED:
                self.cluster.unfence(node, view.uid, taint.value, deadline=DEADLINE_S)
        record = self.slurm.node(self.worker_on[node], deadline=DEADLINE_S)
        if record is None or record.is_drain:
            self.resume(self.worker_on[node])

    def resume(self, worker: str) -> None:
        """Lift DRAIN; Lost when it does not show."""
        self.slurm.resume(worker, deadline=DEADLINE_S)
        record = self.slurm.node(worker, deadline=DEADLINE_S)
        if record is None or record.is_drain:
            raise Lost(f"{worker} cannot be resumed")

    def _metric(self, name: str) -> float:
        """A number of the controller; NaN, which compares with nothing, while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                page = answer.read().decode()
        except OSError:
            return math.nan
        found = re.search(rf"^remediator_{name} (\S+)", page, re.MULTILINE)
        return float(found[1]) if found else math.nan

    def rest(self) -> bool:
        """Wait until what the last sample left behind is over: the kubelet that starts for the new boot
        takes a processor for seconds. False when the machine has not come to rest by then.
        """
        deadline = time.monotonic() + REST_PATIENCE_S
        while machine.busy(REST_S) > REST_BUSY:
            if time.monotonic() > deadline:
                return False
        return True

    # raw writes, for the floors

    def raw_patch(self, node: str) -> float:
        """Seconds of one PATCH that adds a taint; it is taken away again untimed."""
        view = self.view(node)
        taints = [dict(taint.raw) for taint in view.taints]
        began = time.perf_counter()
        self.session.patch(
            paths.node(node), {"spec": {"taints": [*taints, _BENCH_TAINT]}}, deadline=DEADLINE_S
        )
        took = time.perf_counter() - began
        self.session.patch(paths.node(node), {"spec": {"taints": taints}}, deadline=DEADLINE_S)
        return took

    def raw_request(self) -> None:
        """One answer of the controller's HTTP server to which it need not think, on a kept connection."""
        self._door.request("GET", "/healthz")
        self._door.getresponse().read()

    def raw_look(self, node: str) -> None:
        """One GET of a Slurm node."""
        self.slurm.node(self.worker_on[node], deadline=DEADLINE_S)

    def raw_drain(self, node: str) -> float:
        """When slurmctld's log says DRAIN after one POST to slurmrestd."""
        worker = self.worker_on[node]
        self.ctld.skip()
        self.slurm.drain(worker, "bench: floor", deadline=DEADLINE_S)
        drain = self.ctld.drain_of(worker, 10)
        if drain is None:
            raise Lost(f"a raw DRAIN of {worker} does not show in slurmctld's log")
        self.resume(worker)
        return drain.at

    # looking

    def view(self, node: str) -> NodeView:
        """A node as the watch shows it."""
        found = self.nodes.named(node)
        if found is None:
            raise Lost(f"Kubernetes has no node {node}")
        return found

    def until(self, what: str, true: Callable[[], bool], seconds: float, *, every: float = 0.02) -> None:
        """Wait; Lost when it takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise Lost(f"waiting for {what} took more than {seconds:.0f} s")
            time.sleep(every)

    def agent_token(self, node: str) -> str:
        """A projected token as the agent's pod on `node` has one."""
        query = (
            f"labelSelector=app.kubernetes.io%2Fname%3Dremediator-agent&fieldSelector=spec.nodeName%3D{node}"
        )
        (pod,) = self.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods?{query}")["items"]
        meta = pod["metadata"]
        return self._kubectl(
            "create", "token", "remediator-agent", "--audience=remediator", "--duration=1h",
            "--bound-object-kind=Pod", f"--bound-object-name={meta['name']}",
            f"--bound-object-uid={meta['uid']}",
        ).strip()  # fmt: skip

    def _watch_nodes(self) -> Reflector[NodeView]:
        def changed(_old: NodeView | None, new: NodeView | None) -> None:
            if new is not None and new.unschedulable:
                self.cordoned_at.setdefault(new.name, time.time())

        nodes: Reflector[NodeView] = Reflector(
            self.session, paths.NODES, parse_node, clock=self.clock, random=Random(0), on_change=changed
        )
        threading.Thread(target=nodes.run, name="watch-nodes", daemon=True).start()
        if not nodes.synced.wait(30):
            raise Lost("the API server lists no nodes")
        return nodes

    def _workers(self) -> dict[str, str]:
        """Slurm nodes by the Kubernetes node they are on."""
        pods: list[dict[str, Any]] = json.loads(
            self._kubectl("get", "pods", "-l", "app.kubernetes.io/component=worker", "-o", "json")
        )["items"]
        found = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in pods}
        return {spec.name: found[spec.name] for spec in NODES if spec.name in found}

    def _url(self) -> str:
        service = self.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/services/remediator")
        return f"http://{service['spec']['clusterIP']}:8080"

    def _kubectl(self, *arguments: str) -> str:
        return self.lab.kubectl("-n", SLURM_NAMESPACE, *arguments)
