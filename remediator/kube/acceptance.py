"""The acceptance test as a pod: what it looks like, what its end says, and the proof it leaves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from remediator.clock import rfc3339
from remediator.kube.errors import Json, clean
from remediator.kube.nodes import GPU, NodeView
from remediator.kube.patch import preconditioned
from remediator.kube.read import rows, table, text

PROOF = "remediator.dev/validated"
PROOF_S = 24 * 3600.0
INCIDENT = "remediator.dev/incident"
State = Literal["not-ready", "untested", "running", "cannot-start", "passed", "failed", "proven"]
LATE_S = 15.0  # how much longer than its deadline a kubelet may take to say that it is over
ENDS: dict[str, State] = {"Succeeded": "passed", "Failed": "failed"}
NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"})


@dataclass(frozen=True, slots=True)
class TestPod:
    """What runs on the node: exit 0 within `deadline_s` seconds is a pass. `host_paths` are shown to it,
    read-only, under the same names.
    """

    __test__ = False  # for pytest, which would take it for a class of tests

    image: str
    command: Sequence[str] = ()
    namespace: str = "remediator"
    deadline_s: int = 300
    host_paths: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """Where a node's acceptance test stands, and whether its pod is still there. `proven`: the node bears
    a proof that holds; `cannot-start`: the setting is wrong, which says nothing about the node. Not `begun`:
    the kubelet did not let it in, as it does until its device plugin is back after a reboot.
    """

    state: State
    sentence: str
    pod: bool = False
    begun: bool = True


def fitness(node: NodeView) -> Trial:
    """What the node itself shows: Ready, and every GPU it has offered as healthy."""
    if node.ready is not True:
        return Trial("not-ready", f"{node.name} is not Ready")
    if node.gpus is None or node.gpu_capacity is None:
        return Trial("not-ready", f"{node.name} shows no GPUs yet")
    offered = f"{node.gpus} of {node.gpu_capacity} GPUs of {node.name} are healthy"
    return Trial("passed" if node.gpus == node.gpu_capacity > 0 else "failed", offered)


def pod_name(incident: str, uid: str) -> str:
    """One test for one incident on one machine: a second of this name cannot be made."""
    return f"remediator-test-{incident}-{uid.rpartition('-')[2]}"


def manifest(node: NodeView, incident: str, test: TestPod) -> Json:
    """The pod. It is bound to the node by name: taints and cordons that keep others off do not count, and
    a kubelet that cannot give it every GPU fails it at once.
    """
    volumes = [{"name": f"host-{n}", "hostPath": {"path": path}} for n, path in enumerate(test.host_paths)]
    mounts = [
        {"name": f"host-{n}", "mountPath": path, "readOnly": True} for n, path in enumerate(test.host_paths)
    ]
    container = {
        "name": "test",
        "image": test.image,
        "command": list(test.command),
        "resources": {"limits": {GPU: str(node.gpu_capacity or 0)}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(incident, node.uid),
            "namespace": test.namespace,
            "labels": {"app.kubernetes.io/name": "remediator-test"},
            "annotations": {INCIDENT: incident},
        },
        "spec": {
            "nodeName": node.name,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": test.deadline_s,
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": volumes,
        },
    }


def judged(pod: Json, test: TestPod, now: float) -> Trial:
    """What the pod's state says."""
    phase, name = text(table(pod, "status"), "phase"), text(table(pod, "metadata"), "name")
    if phase in ENDS:
        said = f"acceptance test {ENDS[phase]}{_last_words(pod)}"
        return Trial(ENDS[phase], said, pod=True, begun=not _is_refused(pod))
    reason = _why_waiting(pod)
    if reason in NO_IMAGE:
        said = f"the acceptance test cannot start ({reason}): check acceptance.image ({test.image})"
        return Trial("cannot-start", said, pod=True)
    created = _seconds(text(table(pod, "metadata"), "creationTimestamp"))
    if created is not None and now - created > test.deadline_s + LATE_S:
        return Trial("failed", f"acceptance test {name} did not end within {test.deadline_s} s", pod=True)
    return Trial("running", f"acceptance test {name} is {phase or 'Pending'}", pod=True)


def _is_refused(pod: Json) -> bool:
    reason = text(table(pod, "status"), "reason")
    return reason == "UnexpectedAdmissionError" or reason.startswith("OutOf")


def prove_patch(node: NodeView, sentence: str, now: float) -> Json | None:
    """Write the proof onto the node; it holds 24 h and for this boot only."""
    if is_proven(node, now):
        return None
    proof = f"{rfc3339(now)} {node.boot_id} {clean(sentence)}"
    return preconditioned(node, annotations={PROOF: proof})


def is_proven(node: NodeView, now: float) -> bool:
    """Whether the node passed a test less than 24 h ago and has not booted since."""
    at, _, rest = node.annotations.get(PROOF, "").partition(" ")
    seconds = _seconds(at)
    same_boot = bool(node.boot_id) and rest.split(" ", 1)[0] == node.boot_id
    return seconds is not None and same_boot and 0 <= now - seconds + 1 < PROOF_S


def proof_age(node: NodeView, now: float) -> float | None:
    """Seconds since the node passed a test whose proof still holds; None without one."""
    at = _seconds(node.annotations.get(PROOF, "").partition(" ")[0])
    return now - at if at is not None and is_proven(node, now) else None


def proof_of(node: NodeView) -> str:
    """What the proof on the node says, for the record."""
    at, _, rest = node.annotations.get(PROOF, "").partition(" ")
    return f"{node.name} was proven at {at}: {clean(rest.partition(' ')[2])}"


def _last_words(pod: Json) -> str:
    """The last line of what the container said, or the kubelet's own reason."""
    status = table(pod, "status")
    ended = [table(table(row, "state"), "terminated") for row in rows(status, "containerStatuses")]
    said = " ".join(text(state, "message") for state in ended).strip().splitlines()
    reasons = [text(status, "reason"), text(status, "message"), *(text(state, "reason") for state in ended)]
    words = said[-1:] or [word for word in reasons if word][:2]
    return f": {clean(', '.join(words))}" if words else ""


def _why_waiting(pod: Json) -> str:
    states = [
        table(table(row, "state"), "waiting") for row in rows(table(pod, "status"), "containerStatuses")
    ]
    return next((text(state, "reason") for state in states if state), "")


def _seconds(written: str) -> float | None:
    try:
        at = datetime.fromisoformat(written)
        return at.timestamp() if at.tzinfo else None
    except (ValueError, OverflowError):
        return None
