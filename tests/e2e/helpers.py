"""The lab as a researcher and an operator see it: jobs, nodes, our pods, and the servers' own logs."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.api import Lab
from deploy.lab.demo.jobs import JOB_FILES
from deploy.lab.errors import LabError
from deploy.lab.slinky.model import POD_CORDON
from deploy.lab.slurm import chroot
from deploy.lab.spec import NODES, SLURM_NAMESPACE, WORKERS
from deploy.lab.sysfs import IDLE_CELSIUS
from remediator.kube.fence import CORDON_REASON, DID, FENCED, INCIDENT
from remediator.kube.spare import ADMITTED, CLAIM, DETACHED, RETIRED, SpareKeys
from tests.servers import slurm as server
from tests.servers.slurm import count_drains, count_requests, count_requeues

Json = dict[str, Any]
ACCOUNT = "system:serviceaccount:slurm:remediator"
HOME = "sys-0"
"""The node of the controller's pod."""
DATA = "/var/lib/remediator"
STAGE = "REMEDIATOR_POOLS__TRAINING__STAGE"
ENDLESS = 1_000_000
OWN_DELAY_S = 115
"""A job that Slurm has requeued waits for 121 s unless somebody lifts that."""
ONE_OF_EACH = dict.fromkeys(
    ("drains", "drain writes", "requeues", "requeue writes", "fences", "fences anywhere"), 1
)
_KEYS = SpareKeys()
_OURS = (INCIDENT, DID, CORDON_REASON, CLAIM, ADMITTED, DETACHED, RETIRED)
CONFLICT = 409
_CHANGING = {"patch", "update", "create", "delete"}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_TROUBLE = {"DRAIN", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG"}


def wait_for(what: str, check: Callable[[], object], timeout: float = 60.0, every: float = 0.05) -> None:
    """Poll until `check()` is true, or fail naming `what`. Servers that die, come back or are slow may
    give no answer meanwhile: the last such error is told with the failure.
    """
    error = ""

    def holds() -> object:
        nonlocal error
        try:
            return check()
        except (LabError, OSError) as failed:
            error = f"; {failed}"
            return None

    try:
        server.wait_for(what, holds, timeout, every)
    except TimeoutError as late:
        raise TimeoutError(f"{late}{error}") from None


class Tail:
    """The lines that a log has gained since this object was made, without one that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0

    def text(self) -> str:
        with self._path.open("rb") as file:
            file.seek(self._start)
            return _whole_lines(file.read().decode(errors="replace"))


class Servers:
    """What slurmctld, slurmrestd and the API server say they were made to do since this object was made."""

    def __init__(self, lab: Lab) -> None:
        self._ctld = Tail(lab.slurmctld_log)
        self._rest = Tail(lab.slurmrestd_log)
        self._audit = Tail(lab.apiserver_audit)

    def drains(self, worker: str) -> int:
        """How often slurmctld set DRAIN; repeating the same drain does not count here."""
        return count_drains(self._ctld.text(), worker)

    def requeues(self, address: str) -> int:
        return count_requeues(self._ctld.text(), address)

    def requeue_writes(self) -> int:
        """Requeue requests that reached slurmrestd, for any job."""
        return count_requests(self._rest.text(), "POST", "jobs/requeue")

    def fences(self, node: str | None = None) -> int:
        """PATCHes that our account sent to a node, or to any node. One for a version that somebody else had
        changed meanwhile (409) has no effect and is sent again: it is no second one.
        """
        return sum(not _is_conflict(event) for event in self._node_events(node))

    def fence_writes(self, node: str | None = None) -> int:
        """The same with all that were refused."""
        return len(self._node_events(node))

    def _node_events(self, node: str | None) -> list[Json]:
        return [
            event
            for event in map(json.loads, self._audit.text().splitlines())
            if event["user"]["username"] == ACCOUNT
            and event["verb"] in _CHANGING
            and event.get("objectRef", {}).get("resource") == "nodes"
            and node in (None, event["objectRef"].get("name"))
        ]

    def counts(self, worker: str, node: str, address: str) -> dict[str, int]:
        """All of it for one remediation: equal to ONE_OF_EACH when nothing was repeated or done elsewhere."""
        return {
            "drains": self.drains(worker),
            "drain writes": self.node_writes(worker),
            "requeues": self.requeues(address),
            "requeue writes": self.requeue_writes(),
            "fences": self.fences(node),
            "fences anywhere": self.fences(),
        }

    def ctld_text(self) -> str:
        """What slurmctld has logged."""
        return self._ctld.text()

    def node_writes(self, worker: str) -> int:
        """Our own changes of a Slurm node that reached slurmrestd; the operator speaks v0.0.44. Of a repeated
        DRAIN slurmctld itself says nothing.
        """
        return len(
            re.findall(rf" POST /slurm/v0\.0\.45/node/{re.escape(worker)}$", self._rest.text(), re.MULTILINE)
        )

    def changes(self) -> list[str]:
        """Every change that our account asked slurmrestd (we speak v0.0.45) or the API server for, refused
        ones too, but not one for a version that somebody else had changed; the Lease that mirrors leadership
        and reviews of tokens and rights are none.
        """
        asked = r" ((?:POST|PUT|PATCH|DELETE) /slurm/v0\.0\.45/\S+)$"
        slurm = re.findall(asked, self._rest.text(), re.MULTILINE)
        events = map(json.loads, self._audit.text().splitlines())
        kube = [_change(e) for e in events if e["user"]["username"] == ACCOUNT and not _is_conflict(e)]
        return slurm + [change for change in kube if change]

    def audit_text(self) -> str:
        """The API server's audit events, one JSON object a line."""
        return self._audit.text()

    def writes(self) -> int:
        """Everything that changed a Slurm node or job on our behalf, or tried to change a node."""
        text = self._ctld.text()
        slurm = len(re.findall(r"update_node: node \S+ (?:state set|reason set to: remediator)", text))
        return (
            slurm + len(re.findall(r"Requeuing JobId=", text)) + self.requeue_writes() + self.fence_writes()
        )


@dataclass(frozen=True)
class Training:
    """A training job of the demo, or one task of an array of them; `address` is what Slurm calls it."""

    lab: Lab
    address: str

    def record(self) -> Json:
        """Slurm's record; for a task scontrol shows its whole array."""
        job, _, task = self.address.partition("_")
        shown = json.loads(self.lab.slurm("scontrol", "show", "job", job, "--json", check=False) or "{}")
        fit = [
            one for one in shown.get("jobs", []) if not task or one["array_task_id"]["number"] == int(task)
        ]
        return dict(fit[0]) if fit else {"job_id": 0, "job_state": [], "restart_cnt": -1, "nodes": ""}

    @property
    def folder(self) -> Path:
        return self.lab.layout.shared / "job" / f"run-{self.record()['job_id']}"

    def keeps_log(self) -> bool:
        """Its script is the demo's, which writes down what it does; other scripts do not."""
        return (self.folder / "events.log").exists()

    def has_begun(self, restart: int, ranks: int) -> bool:
        """So many ranks of this run have said that they began; a job without a log has none."""
        return not ranks or len(self.events("START", restart)) >= ranks

    def is_untouched(self) -> bool:
        """Its first run goes on and was never told to end."""
        return self.is_running(0) and self.events("TERM") == []

    def workers(self) -> list[str]:
        """The Slurm nodes it runs on."""
        return self.lab.slurm("scontrol", "show", "hostnames", self.record()["nodes"]).split()

    def is_running(self, restart: int) -> bool:
        found = self.record()
        return (found["job_state"], found["restart_cnt"]) == (["RUNNING"], restart)

    def reached(self) -> int:
        """The last step that any run of it has done; -1 before the first."""
        try:
            return int((self.folder / "reached").read_text())
        except (OSError, ValueError, KeyError):
            return -1

    def events(self, kind: str, restart: int | None = None) -> list[dict[str, str]]:
        """Its own log: START, TERM, END lines, of one run or of all."""
        lines = (self.folder / "events.log").read_text().splitlines()
        return [
            event
            for event in map(_event, lines)
            if event["event"] == kind and restart in (None, int(event["restart"]))
        ]

    def terms(self) -> dict[str, int]:
        """SIGTERMs that each rank of its first run has seen."""
        ranks = [event["rank"] for event in self.events("START", 0)]
        return {rank: sum(e["rank"] == rank for e in self.events("TERM")) for rank in ranks}


class Follower:
    """A job that depends on another one and writes down when it started."""

    def __init__(self, lab: Lab, kind: str, parent: str) -> None:
        self._lab = lab
        self._stamp = lab.layout.shared / f"{kind}-{parent}"
        script = f"#!/bin/bash\ndate +%s.%N > /shared/{self._stamp.name}\n"
        options = ["--parsable", f"--dependency={kind}:{parent}", "--output=/dev/null"]
        self.job = lab.slurm("sbatch", *options, stdin=script).strip()

    def started(self) -> float | None:
        """Seconds since 1970, None when it has not."""
        text = self._stamp.read_text() if self._stamp.exists() else ""
        return float(text) if text else None

    def why_pending(self) -> str:
        """Slurm's reason."""
        return self._lab.slurm("squeue", "-h", "-j", self.job, "-o", "%r", check=False).strip()


class Controller:
    """The controller's Deployment and pod; `kubectl exec` starts a Python each time, so it is used little."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._began = time.time()

    def pod(self) -> Json:
        """Its newest pod; empty when there is none."""
        path = (
            f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fname%3Dremediator"
        )
        pods = self._lab.api.get(path)["items"]
        return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default={})

    def container(self) -> Json:
        """Status of its container."""
        return dict((self.pod().get("status", {}).get("containerStatuses") or [{}])[0])

    def is_settled(self) -> bool:
        """The Deployment as it is written now runs, and nothing of an earlier one does."""
        found = self._lab.api.get(f"/apis/apps/v1/namespaces/{SLURM_NAMESPACE}/deployments/remediator")
        status = found["status"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [1, 1, 1]

    def change(self, *kubectl: str) -> None:
        """Run a kubectl command that replaces the pod, and wait for the new one."""
        self._lab.kubectl("-n", SLURM_NAMESPACE, *kubectl)
        self.wait()

    def wait(self) -> None:
        """Until the pod is the newest and Ready, and has stopped being replaced."""
        wait_for("the controller's pod", self.is_settled, 150, every=0.2)

    def arm(self, moment: str | None) -> None:
        """Let the next pod kill itself at this moment, once; None disarms."""
        marker = f"{DATA}/failpoint-{(moment or 'none').replace(':', '-')}"
        self._lab.exec(["rm", "-f", marker], node_name=HOME)
        setting = f"REMEDIATOR_FAILPOINT={moment}" if moment else "REMEDIATOR_FAILPOINT-"
        self.change("set", "env", "deployment/remediator", setting)

    def stand_at(self, stage: str) -> None:
        """Let the pool go as far as `stage`, which outlives a test: the next one asks for its own."""
        path = f"/apis/apps/v1/namespaces/{SLURM_NAMESPACE}/deployments/remediator"
        containers = self._lab.api.get(path)["spec"]["template"]["spec"]["containers"]
        container = next(one for one in containers if one["name"] == "controller")
        if {"name": STAGE, "value": stage} not in container.get("env", []):
            self.change("set", "env", "deployment/remediator", f"{STAGE}={stage}")

    def forget(self) -> None:
        """An empty store, and a controller that watches: what ended before its first look does not count."""
        self._lab.kubectl("-n", SLURM_NAMESPACE, "scale", "deployment/remediator", "--replicas=0")
        wait_for("the pod to end", lambda: not self.pod(), 90, every=0.2)
        self._lab.exec(["find", DATA, "-mindepth", "1", "-delete"], node_name=HOME)
        self.change("scale", "deployment/remediator", "--replicas=1")
        wait_for("the watch over jobs", lambda: "are watched from now on" in self.log(), 120, every=0.3)

    def run(self, *arguments: str) -> str:
        """Standard output of `remediator ...` in the pod."""
        command = ("-n", SLURM_NAMESPACE, "exec", "deploy/remediator", "-c", "controller", "--", "remediator")
        return self._lab.kubectl(*command, *arguments)

    def incidents(self, node: str | None = None) -> list[Json]:
        """A node's incidents, or all, since this object was made, newest first."""
        found = json.loads(self.run("incidents", "list", "--json"))
        return [one for one in found if node in (None, one["node"]) and one["opened_at"] >= self._began]

    def story(self, incident: str) -> Json:
        found: Json = json.loads(self.run("incidents", "show", incident, "--json"))
        return found

    def unfinished(self) -> list[str]:
        """The steps that are under way, and what they say."""
        found = json.loads(self.run("incidents", "list", "--json"))
        stories = [self.story(one["id"]) for one in found if one["closed_at"] is None]
        steps = [step for story in stories for step in story["steps"] if step["state"] != "done"]
        return [f"{step['name']}: {step['sentence']}" for step in steps if step["sentence"]]

    def audit(self) -> Json:
        found: Json = json.loads(self.run("audit", "verify", "--json"))
        return found

    def told(self, incident: str, audience: str) -> list[str]:
        """Texts of an incident's messages to somebody, from the pod's log."""
        lines = [json.loads(line) for line in self.lines() if '"audience"' in line]
        mine = [one for one in lines if (one["incident"], one["audience"]) == (incident, audience)]
        return [str(one["text"]) for one in mine]

    def log(self) -> str:
        """What the pod's containers have printed, earlier runs included."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The same by line."""
        meta = self.pod()["metadata"]
        folder = self._lab.layout.pod_logs(HOME) / f"{SLURM_NAMESPACE}_{meta['name']}_{meta['uid']}"
        files = sorted(folder.glob("controller/*.log"), key=lambda file: int(file.stem))
        texts = [_whole_lines(file.read_text()) for file in files]
        return [line.split(" ", 3)[3] for text in texts for line in text.splitlines()]

    @property
    def url(self) -> str:
        """Its pod's address, within the lab's network."""
        return f"http://{self.pod()['status']['podIP']}:8080"

    def metric(self, sample: str) -> float:
        """One sample of /metrics by its whole name with labels."""
        with self._lab.visit_network(), urllib.request.urlopen(f"{self.url}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        (value,) = re.findall(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        return float(value)


class Site:
    """Everything a test does to the lab, and how it is mended afterwards."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.controller = Controller(lab)
        shutil.copytree(JOB_FILES, lab.layout.shared / "job", dirs_exist_ok=True)

    def train(self, *options: str, steps: int = ENDLESS, pace: float = 0.1) -> Training:
        """Submit the demo's job, unchanged; `pace` in seconds a step."""
        export = f"--export=ALL,STEPS={steps},STEP_SECONDS={pace}"
        job = self.lab.slurm("sbatch", "--parsable", export, *options, "/shared/job/train.sbatch")
        return Training(self.lab, job.strip())

    def allocate(self, *options: str) -> Training:
        """An salloc, and a training step that its owner started in it."""
        name = f"salloc-{time.monotonic_ns()}"
        self.lab.slurm("salloc", "--no-shell", f"--job-name={name}", *options)
        job = self.lab.slurm("squeue", "-h", "-n", name, "-o", "%A").strip()
        step = f"STEPS={ENDLESS} STEP_SECONDS=0.1 srun --jobid={job} python3 /shared/job/train.py"
        self.lab.slurm("sh", "-c", f"{step} < /dev/null > /dev/null 2>&1 &")
        return Training(self.lab, job)

    def trains(self, *jobs: Training, step: int = 5) -> None:
        """Wait until the jobs compute."""
        names = ", ".join(job.address for job in jobs)
        wait_for(f"{names} to train", lambda: all(job.reached() >= step for job in jobs), 150, every=0.2)

    def moves(self, job: Training) -> None:
        """Wait until the job runs as its first restart, and all its ranks compute again, if they say so.
        Slurm alone would start it too, but later than this waits.
        """
        ranks = len(job.events("START", 0)) if job.keeps_log() else 0
        with self.explained():
            wait_for(f"restart 1 of job {job.address}", lambda: job.is_running(1), OWN_DELAY_S, every=0.2)
            wait_for(f"its {ranks} ranks", lambda: job.has_begun(1, ranks), 120, every=0.2)

    def closes(self, node: str, seconds: float = 150) -> Json:
        """Wait until the node's newest incident is closed; that incident."""

        def closed() -> bool:
            found[:] = self.controller.incidents(node)
            return bool(found) and found[0]["state"] == "closed"

        found: list[Json] = []
        with self.explained():
            wait_for(f"the incident of {node} to be closed", closed, seconds, every=0.5)
        return found[0]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """A wait that fails says what the open incidents wait for, and what the controller logged."""
        try:
            yield
        except TimeoutError as error:
            said = [*self.controller.unfinished(), *self.controller.lines()[-8:]]
            raise TimeoutError("\n".join([str(error), *said])) from None

    def node_of(self, worker: str) -> str:
        """The Kubernetes node of a Slurm node; empty while its pod waits for one."""
        pod = self.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods/{worker}")
        return str(pod["spec"].get("nodeName", ""))

    def agent_on(self, node: str) -> str:
        """Name of the agent's pod on a node."""
        query = (
            f"labelSelector=app.kubernetes.io%2Fname%3Dremediator-agent&fieldSelector=spec.nodeName%3D{node}"
        )
        pods = self.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods?{query}")["items"]
        (name,) = (pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])
        return str(name)

    def reference(self, steps: int, ranks: int = 2) -> str:
        """SHA-256 of the weights after the same training without a fault, on the same Python."""
        folder = f"/shared/reference-{steps}-{ranks}"
        settings = [f"STEPS={steps}", "STEP_SECONDS=0", f"WORKDIR={folder}"]
        self.lab.exec(
            chroot("env", *settings, "python3", "/shared/job/train.py", "--local-ranks", str(ranks))
        )
        result = self.lab.layout.shared / Path(folder).name / "result.json"
        return str(json.loads(result.read_text())["sha256"])

    def mend(self) -> None:
        """Cool and whole GPUs, no job, no fence, a spare, four idle workers, nothing open.

        Those are forgotten first: mending is a person's hand, and what a person overrides stays overridden.
        """
        self._forget_open()
        for node, gpu in ((spec.name, gpu) for spec in NODES for gpu in range(spec.gpus)):
            self.lab.inject.heat(node, gpu, IDLE_CELSIUS)  # a hot one fails the acceptance test of a spare
            self.lab.inject.gpu_found(node, gpu)
        self.lab.slurm("scancel", "--user=root", check=False)  # first: a job that is killed has crashed
        self.lab.slurm("scancel", "--user=root", "--full", "--signal=KILL", check=False)
        for node in self.lab.api.get("/api/v1/nodes")["items"]:
            if node["spec"].get("unschedulable") or FENCED in str(node["spec"]):
                self._unfence(node)
        self.refill()
        assert self._spares() == 1, (
            "a test has used up the pool's spare, and nothing says which node can take its place"
        )
        wait_for(f"{WORKERS} idle workers", self._all_idle, 180, every=0.3)
        self._forget_open()

    def _forget_open(self) -> None:
        self.controller.wait()
        if self.controller.metric("remediator_incidents_open"):
            self.controller.forget()

    def refill(self) -> None:
        """A repaired node comes back as the pool's spare, as a person would do it."""
        spare = {"key": _KEYS.spare, "value": _KEYS.value, "effect": "NoSchedule"}
        patch = {
            "metadata": {"annotations": dict.fromkeys(_OURS), "labels": {_KEYS.spare: _KEYS.value}},
            "spec": {"unschedulable": None, "taints": [spare]},
        }
        for node in self.lab.api.get("/api/v1/nodes")["items"]:
            if any(taint["key"] == RETIRED for taint in node["spec"].get("taints", ())):
                name = node["metadata"]["name"]
                self.lab.kubectl("patch", "node", name, "--type=merge", "-p", json.dumps(patch))

    def _spares(self) -> int:
        nodes = self.lab.api.get("/api/v1/nodes")["items"]
        return sum(taint["key"] == _KEYS.spare for node in nodes for taint in node["spec"].get("taints", ()))

    def _unfence(self, node: Json) -> None:
        """As a person gives a node back, before it is resumed in Slurm: the operator looks at the cordon."""
        kept = [t for t in node["spec"].get("taints", []) if t["key"] not in {FENCED, _UNSCHEDULABLE}]
        gone = dict.fromkeys((INCIDENT, DID, CORDON_REASON))
        patch = {"metadata": {"annotations": gone}, "spec": {"unschedulable": None, "taints": kept}}
        self.lab.kubectl("patch", "node", node["metadata"]["name"], "--type=merge", "-p", json.dumps(patch))

    def _all_idle(self) -> bool:
        shown = json.loads(self.lab.slurm("scontrol", "show", "nodes", "--json", check=False) or "{}")
        idle = 0
        for node in shown.get("nodes", []):
            state = set(node["state"])
            # Without a comment the operator has yet to adopt the worker, which is a write of its own.
            adopted = bool(node.get("comment"))
            idle += adopted and "IDLE" in state and not state & (_TROUBLE | {"COMPLETING"})
            if state & {"DRAIN", "DOWN"} and not state & {
                "NOT_RESPONDING",
                "ALLOCATED",
                "MIXED",
                "COMPLETING",
            }:
                self.lab.slurm("scontrol", "update", f"nodename={node['name']}", "state=resume", check=False)
        return idle >= WORKERS and not self._is_cordoned()

    def _is_cordoned(self) -> bool:
        """Whether the operator has yet to see that a worker's node is schedulable again."""
        pods = self.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods")["items"]
        return any(POD_CORDON in pod["metadata"].get("annotations", {}) for pod in pods)


def save_state(lab: Lab, job: str) -> None:
    """Wait until slurmctld has written its state with this job in it: it does within seconds of a change."""

    def written() -> str:
        return lab.slurm("stat", "-c", "%i %.9Y", "/var/spool/slurmctld/job_state", check=False)

    before = written()
    lab.slurm("scontrol", "update", f"jobid={job}", "comment=keep")
    wait_for("slurmctld to write its state", lambda: written() not in {"", before}, 60, every=0.2)


@contextlib.contextmanager
def in_order(lab: Lab, stage: str = "move-jobs") -> Iterator[Site]:
    """A lab in order whose pool stands at this stage, and mended again afterwards.

    Only `full` uses up the lab's one spare; most tests are about what comes before.
    """
    site = Site(lab)
    site.controller.stand_at(stage)
    site.mend()
    try:
        yield site
    finally:
        site.mend()


def _whole_lines(text: str) -> str:
    """Without what follows the last end of a line."""
    return text[: text.rfind("\n") + 1]


def _is_conflict(event: Json) -> bool:
    """Whether the API server refused it because the object had changed meanwhile."""
    return bool(event.get("responseStatus", {}).get("code") == CONFLICT)


def _change(event: Json) -> str:
    """What an audit event says that somebody wanted to change; empty when it is nothing of a cluster's."""
    about = event.get("objectRef", {})
    reads = event["verb"] in {"get", "list", "watch"}
    if reads or about.get("resource") in {"leases", "tokenreviews", "selfsubjectaccessreviews"}:
        return ""
    parts = (about.get("resource"), about.get("name"), about.get("subresource"))
    return f"{event['verb']} {'/'.join(part for part in parts if part)}"


def _event(line: str) -> dict[str, str]:
    kind, *fields = line.split()
    return {"event": kind} | dict(field.partition("=")[::2] for field in fields)
