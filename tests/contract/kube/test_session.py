"""The session against a real kube-apiserver: TLS, RBAC, conflicts, evictions, restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from remediator import __version__
from remediator.clock import ManualClock, SystemClock
from remediator.errors import BadInput, Blocked, GiveUp, Retry
from remediator.kube import paths
from remediator.kube.errors import Conflict, Gone
from remediator.kube.lease import LeaseMirror
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import WORKER_LABELS, parse_pod, slurm_node
from remediator.kube.reflector import Reflector
from remediator.kube.reviews import Identity, review
from remediator.kube.session import PAGE, connect
from remediator.kube.watch import events
from tests.servers.kube import KubeServer

pytestmark = pytest.mark.kube
D = 5.0
PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def wait_for(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.01)


def test_a_certificate_of_an_unknown_ca_is_refused(kube_server: KubeServer, tmp_path: Path) -> None:
    config = kube_server.kubeconfig().read_text()
    path = tmp_path / "kubeconfig"
    path.write_text(config.replace(str(kube_server.work / "ca.crt"), "/etc/ssl/certs/ca-certificates.crt"))
    with pytest.raises(GiveUp, match="not trusted"):
        connect(path, clock=SystemClock()).get(paths.NODES, deadline=D)


def test_a_missing_right_names_verb_resource_and_user(kube_server: KubeServer) -> None:
    kube_server.add_node("rights-0")
    with pytest.raises(
        GiveUp, match=r'patch nodes/rights-0: HTTP 403 .*User "nobody" cannot patch'
    ) as caught:
        kube_server.session("nobody").patch(paths.node("rights-0"), {"metadata": {}}, deadline=D)
    assert kube_server.tokens["nobody"] not in str(caught.value)


def test_a_wrong_token_gives_up_after_reading_the_credentials_once_more(
    kube_server: KubeServer, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kube_server.kubeconfig().read_text().replace(kube_server.tokens["remediator"], "stale"))
    session = connect(path, clock=SystemClock())
    with pytest.raises(GiveUp, match="HTTP 401"):
        session.list(paths.NODES, deadline=D)
    path.write_text(kube_server.kubeconfig().read_text())
    session.list(paths.NODES, deadline=D)


def test_a_stale_resource_version_is_a_conflict_and_writes_nothing(kube_server: KubeServer) -> None:
    kube_server.add_node("stale-0")
    session = kube_server.session()
    seen = session.get(paths.node("stale-0"), deadline=D)
    assert seen is not None
    stale = {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"], "labels": {"a": "1"}}}
    session.patch(paths.node("stale-0"), stale, deadline=D)
    with pytest.raises(Conflict):
        session.patch(paths.node("stale-0"), stale, deadline=D)


def test_nonsense_is_bad_input_with_the_servers_words(kube_server: KubeServer) -> None:
    kube_server.add_node("nonsense-0")
    patch = {"spec": {"taints": [{"key": "a", "effect": "NoSuchEffect"}]}}
    with pytest.raises(BadInput, match="NoSuchEffect"):
        kube_server.session().patch(paths.node("nonsense-0"), patch, deadline=D)


def test_absent_objects_are_none_and_unserved_resources_are_not(kube_server: KubeServer) -> None:
    admin = kube_server.session("admin")
    assert admin.get(paths.node("absent"), deadline=D) is None
    assert admin.patch(paths.node("absent"), {"metadata": {}}, deadline=D) is None
    assert admin.delete(paths.node("absent"), "u", deadline=D) is None
    with pytest.raises(Retry, match="404"):
        admin.get("/apis/no.such.group/v1/things/x", deadline=D)
    with pytest.raises((GiveUp, Retry)):
        admin.list("/api/v1/no-such-things", deadline=D)


def test_delete_spares_another_object_of_the_same_name(kube_server: KubeServer) -> None:
    kube_server.add_node("same-name")
    admin = kube_server.session("admin")
    with pytest.raises(Conflict):
        admin.delete(paths.node("same-name"), "another-uid", deadline=D)
    assert admin.get(paths.node("same-name"), deadline=D) is not None


def test_an_eviction_against_a_disruption_budget_is_blocked(kube_server: KubeServer) -> None:
    kube_server.add_node("pdb-0")
    kube_server.add_pod("default", "pdb-pod", "pdb-0", {"app": "pdb"})
    admin = kube_server.session("admin")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    admin.patch(f"{paths.pod('default', 'pdb-pod')}/status", running, deadline=D)
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "pdb"}}},
    }
    admin.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget, deadline=D)
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "pdb-pod"}}
    with pytest.raises(Blocked, match="disruption budget"):
        admin.post(f"{paths.pod('default', 'pdb-pod')}/eviction", eviction, deadline=D)


def test_lists_longer_than_a_page_come_whole(kube_server: KubeServer) -> None:
    admin = kube_server.session("admin")
    configmaps = "/api/v1/namespaces/default/configmaps"
    for number in range(PAGE + 3):
        admin.post(configmaps, {"metadata": {"name": f"page-{number}"}}, deadline=D)
    names = [item["metadata"]["name"] for item in admin.list(configmaps, deadline=30.0).items]
    assert len(set(names)) == len(names)
    assert sum(name.startswith("page-") for name in names) == PAGE + 3


def test_requests_carry_our_name(kube_server: KubeServer) -> None:
    kube_server.session().list(paths.NODES, deadline=D)
    wait_for(lambda: bool(kube_server.audit()))
    assert kube_server.audit()[-1]["userAgent"] == f"remediator/{__version__}"


def bound_token(server: KubeServer, pod: str, uid: str, audience: str) -> str:
    spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 600}
    spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
    made = server.session("admin").post(f"{ACCOUNT}/token", {"spec": spec}, deadline=D)
    assert made is not None
    return str(made["status"]["token"])


def test_a_pods_token_tells_its_node_and_only_for_our_audience(kube_server: KubeServer) -> None:
    kube_server.add_node("token-0")
    uid = kube_server.add_pod("default", "token-pod", "token-0")
    session = kube_server.session()
    token = bound_token(kube_server, "token-pod", uid, "remediator")
    assert review(session, token, "remediator", deadline=D) == Identity(
        authenticated=True,
        username="system:serviceaccount:default:default",
        node="token-0",
        pod_uid=uid,
    )
    other = bound_token(kube_server, "token-pod", uid, "vault")
    for bad in (other, token[:-4] + "AAAA", "nonsense", ""):
        verdict = review(session, bad, "remediator", deadline=D)
        assert not verdict.authenticated
        assert verdict.node == ""
        assert not bad or bad not in verdict.problem


def test_a_deleted_pods_token_is_not_accepted(kube_server: KubeServer) -> None:
    kube_server.add_node("token-1")
    uid = kube_server.add_pod("default", "token-gone", "token-1")
    token = bound_token(kube_server, "token-gone", uid, "remediator")
    kube_server.session("admin").delete(paths.pod("default", "token-gone"), uid, deadline=D)
    wait_for(
        lambda: not review(kube_server.session(), token, "remediator", deadline=D).authenticated, seconds=90.0
    )


def test_the_lease_shows_holder_and_epoch_and_never_goes_back(kube_server: KubeServer) -> None:
    session, clock = kube_server.session(), SystemClock()
    mirror = LeaseMirror(session, "default", "remediator", duration=10, clock=clock)

    def spec() -> dict[str, Any]:
        lease = session.get(paths.lease("default", "remediator"), deadline=D)
        return dict((lease or {})["spec"])

    assert mirror.show("pod-a", 7, deadline=D)
    first = spec()
    assert (first["holderIdentity"], first["leaseTransitions"]) == ("pod-a", 7)
    assert mirror.show("pod-a", 7, deadline=D)
    assert spec()["acquireTime"] == first["acquireTime"]
    assert mirror.show("pod-b", 8, deadline=D)
    assert not mirror.show("pod-a", 7, deadline=D)
    assert spec()["holderIdentity"] == "pod-b"


def test_worker_pods_map_to_their_slurm_node(kube_server: KubeServer) -> None:
    kube_server.add_node("map-0")
    kube_server.add_pod("default", "slurm-worker-0", "map-0", WORKER_LABELS)
    raw = kube_server.session().get(paths.pod("default", "slurm-worker-0"), deadline=D)
    pod = parse_pod(raw or {})
    assert pod is not None
    assert (slurm_node(pod), pod.node) == ("slurm-worker-0", "map-0")


def test_a_reflector_follows_through_an_api_server_crash_and_stops_at_once(kube_server: KubeServer) -> None:
    kube_server.add_node("follow-0")
    reflector: Reflector[NodeView] = Reflector(
        kube_server.session(), paths.NODES, parse_node, clock=SystemClock(), random=Random(1)
    )
    thread = threading.Thread(target=reflector.run, daemon=True)
    thread.start()
    wait_for(reflector.synced.is_set)
    assert reflector.named("follow-0") is not None
    kube_server.add_node("follow-1")
    wait_for(lambda: reflector.named("follow-1") is not None)
    kube_server.stop_api()
    with pytest.raises(Retry, match="cannot be reached"):
        kube_server.session().get(paths.NODES, deadline=D)
    kube_server.start_api()
    kube_server.remove_node("follow-0")
    kube_server.add_node("follow-2")
    wait_for(lambda: reflector.named("follow-2") is not None and reflector.named("follow-0") is None)
    live = kube_server.session().list(paths.NODES, deadline=D).items
    truth = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in live}
    wait_for(lambda: {uid: node.resource_version for uid, node in reflector.items().items()} == truth)
    assert reflector.reconnects["lost"] >= 1
    reflector.stop()
    thread.join(10.0)
    assert not thread.is_alive()


def test_a_watch_from_before_the_server_started_is_gone(kube_server: KubeServer) -> None:
    kube_server.add_node("gone-0")
    kube_server.stop_api()
    kube_server.start_api()
    params = {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "5"}
    stream = kube_server.session().watch(paths.NODES, params=params, read_timeout=D)
    with pytest.raises(Gone):
        list(events(stream.chunks(), paths.NODES))


def test_a_deadline_of_nothing_sends_nothing(kube_server: KubeServer) -> None:
    session = connect(kube_server.kubeconfig(), clock=ManualClock())
    with pytest.raises(Retry, match="before the request was sent"):
        session.patch(paths.node("never"), {"metadata": {}}, deadline=0.0)
