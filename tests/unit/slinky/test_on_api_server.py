"""The operator's own client and manifests on a real API server."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.lab.slinky import issuer, pods, status, tokens
from deploy.lab.slinky.kube import CUSTOM, Doorbell, Kube, KubeError
from deploy.lab.slinky.main import node_part
from deploy.lab.slinky.model import Json, NodeSet, SlurmNode, WorkerPod
from tests.servers.kube import KubeServer

pytestmark = [pytest.mark.kube]

FOLDER = Path(__file__).parents[3] / "deploy/lab/slinky"
SLURM = "/api/v1/namespaces/slurm"
KEY = b"\x00\xffraw bytes of jwt.key"


def load(name: str) -> list[Json]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def made(kube: Kube, path: str, body: Json) -> bool:
    """Creates once the path is served: definitions and namespaces take a moment."""
    until = time.monotonic() + 20
    while True:
        try:
            return kube.create(path, body)
        except KubeError as error:
            if error.status != 404 or time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.fixture(scope="module")
def kube(kube_server: KubeServer) -> Kube:
    token = kube_server.work / "slinky.token"
    token.write_text(kube_server.tokens["admin"])
    found = Kube(kube_server.url, token, kube_server.work / "ca.crt")
    found.create("/api/v1/namespaces", {"metadata": {"name": "slurm"}})
    for account in ("default",):
        made(found, f"{SLURM}/serviceaccounts", {"metadata": {"name": account}})
    for definition in load("crds.yaml"):
        found.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for resource in load("cluster.yaml"):
        if resource["kind"] != "Token":
            made(found, collection(resource["kind"]), resource)
    return found


def collection(kind: str) -> str:
    return f"{CUSTOM}/namespaces/slurm/{kind.lower()}s"


@pytest.fixture
def token(kube: Kube) -> Iterator[Json]:
    """The Token of the lab, and the key that signs it."""
    secret = {"metadata": {"name": "slurm-auth-jwt"}, "data": {"jwt.key": base64.b64encode(KEY).decode()}}
    kube.create(f"{SLURM}/secrets", secret)
    (wanted,) = (r for r in load("cluster.yaml") if r["kind"] == "Token")
    made(kube, collection("Token"), wanted)
    found = kube.get(f"{collection('Token')}/remediator")
    assert found is not None
    yield found
    kube.delete(f"{collection('Token')}/remediator", found["metadata"]["uid"])
    if made_secret := kube.get(f"{SLURM}/secrets/remediator-jwt-slurm"):
        kube.delete(f"{SLURM}/secrets/remediator-jwt-slurm", made_secret["metadata"]["uid"])


def held(kube: Kube) -> str:
    secret = kube.get(f"{SLURM}/secrets/remediator-jwt-slurm")
    assert secret is not None
    return base64.b64decode(secret["data"]["SLURM_JWT"]).decode()


def test_token_is_issued_kept_and_renewed(kube: Kube, token: Json) -> None:
    assert issuer.renew_all(kube, 1000.0) == 1000 + 0.8 * 3600
    first = held(kube)
    assert tokens.claims_of(first, KEY)["sun"] == "slurm"
    assert issuer.renew_all(kube, 3879.0) == 1000 + 0.8 * 3600
    assert held(kube) == first
    issuer.renew_all(kube, 3881.0)
    assert tokens.claims_of(held(kube), KEY)["exp"] == 3881 + 3600
    now = kube.get(f"{collection('Token')}/remediator")
    assert now is not None
    assert now["status"]["issuedAt"] == status.stamp(3881)


def test_token_of_another_key_is_replaced(kube: Kube, token: Json) -> None:
    issuer.renew_all(kube, 1000.0)
    foreign = base64.b64encode(tokens.issue(b"other", "slurm", 3600, 1000).encode()).decode()
    kube.patch(f"{SLURM}/secrets/remediator-jwt-slurm", {"data": {"SLURM_JWT": foreign}})
    issuer.renew_all(kube, 1001.0)
    assert tokens.claims_of(held(kube), KEY)


def test_token_without_its_key_is_tried_again(kube: Kube, token: Json) -> None:
    secret = kube.get(f"{SLURM}/secrets/slurm-auth-jwt")
    assert secret is not None
    kube.delete(f"{SLURM}/secrets/slurm-auth-jwt", secret["metadata"]["uid"])
    assert issuer.renew_all(kube, 1000.0) == 1000 + issuer.RETRY


@pytest.mark.parametrize(
    "wrong",
    [
        {"scalingMode": "Deployment"},
        {"replicas": -1},
        {"updateStrategy": {"type": "OnDelete"}},
        {"pruneSlurmNodeRecords": "NodeNotFound"},
    ],
)
def test_nodeset_asking_for_what_is_not_played_is_refused(kube: Kube, wrong: dict[str, Any]) -> None:
    body = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "other"},
        "spec": {"controllerRef": {"name": "slurm"}, **wrong},
    }
    with pytest.raises(KubeError) as refused:
        kube.create(collection("NodeSet"), body)
    assert refused.value.status == 422


def test_shared_manifests_and_status_are_accepted(kube: Kube) -> None:
    (raw,) = kube.items(collection("NodeSet"))
    nodeset = NodeSet.from_json(raw)
    assert kube.create(
        "/apis/policy/v1/namespaces/slurm/poddisruptionbudgets", pods.disruption_budget(nodeset)
    )
    assert kube.create(f"{SLURM}/services", pods.workers_service(nodeset))
    assert kube.create(f"{SLURM}/events", status.event(nodeset, "SyncFailed", "text", 1000.0))
    totals = status.nodeset_status(nodeset, [], {}, nodeset.replicas, {"0": "gpu-0"})
    kube.patch(status.nodeset_path(nodeset), {"status": totals})
    (raw,) = kube.items(collection("NodeSet"))
    assert not status.differs(NodeSet.from_json(raw), totals)
    unpinned = status.nodeset_status(NodeSet.from_json(raw), [], {}, nodeset.replicas, None)
    kube.patch(status.nodeset_path(nodeset), {"status": unpinned})
    (raw,) = kube.items(collection("NodeSet"))
    assert NodeSet.from_json(raw).pins == {}


def test_existing_and_missing_objects_are_no_errors(kube: Kube) -> None:
    body: Json = {"metadata": {"name": "twice"}}
    assert kube.create(f"{SLURM}/configmaps", body)
    assert not kube.create(f"{SLURM}/configmaps", body)
    assert kube.get(f"{SLURM}/configmaps/none") is None
    kube.patch(f"{SLURM}/configmaps/none", {"data": {}})
    kube.delete(f"{SLURM}/configmaps/none", "uid")


def test_delete_spares_another_object_of_the_same_name(kube: Kube) -> None:
    kube.create(f"{SLURM}/configmaps", {"metadata": {"name": "spared"}})
    kube.delete(f"{SLURM}/configmaps/spared", "00000000-0000-0000-0000-000000000000")
    assert kube.get(f"{SLURM}/configmaps/spared") is not None


def test_refusal_carries_the_status_and_no_token(kube: Kube, kube_server: KubeServer) -> None:
    nobody = kube_server.work / "nobody.token"
    nobody.write_text(kube_server.tokens["nobody"])
    client = Kube(kube_server.url, nobody, kube_server.work / "ca.crt")
    with pytest.raises(KubeError) as refused:
        client.items("/api/v1/nodes")
    assert refused.value.status == 403
    assert kube_server.tokens["nobody"] not in str(refused.value)


def test_slurm_state_comes_and_goes_on_a_pod_and_leaves_the_kubelets_conditions(
    kube: Kube, kube_server: KubeServer
) -> None:
    kube_server.add_pod("slurm", "worker-9", "gpu-9")
    path = f"{SLURM}/pods/worker-9"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": status.stamp(1000)}
    kube.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def show(*state: str, reason: str = "") -> WorkerPod:
        record = SlurmNode("worker-9", frozenset(state), reason)
        status.show(kube, WorkerPod.from_json(kube.get(path) or {}), record, True, 2000.0)
        return WorkerPod.from_json(kube.get(path) or {})

    shown = show("MIXED", "DRAIN", reason="why")
    assert shown.slurm_conditions == {"SlurmNodeStateMixed": "why", "SlurmNodeStateDrain": "why"}
    assert shown.protected
    shown = show("IDLE")
    assert shown.slurm_conditions == {"SlurmNodeStateIdle": ""}
    assert not shown.protected
    assert shown.ready_since == 1000


def test_bell_rings_for_a_cordon_and_not_for_a_heartbeat(kube: Kube, kube_server: KubeServer) -> None:
    kube_server.add_node("bell")
    bell = Doorbell(kube)
    bell.listen("/api/v1/nodes", node_part)
    assert bell.wait(10)
    bell.wait(0.5)
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": status.stamp(5000)}
    kube.patch("/api/v1/nodes/bell/status", {"status": {"conditions": [beat]}})
    assert not bell.wait(0.5)
    kube.patch("/api/v1/nodes/bell", {"spec": {"unschedulable": True}})
    assert bell.wait(10)
    kube_server.remove_node("bell")
    assert bell.wait(10)
