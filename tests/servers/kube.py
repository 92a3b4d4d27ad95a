"""A real etcd and kube-apiserver on loopback in a temporary folder: TLS that clients verify, RBAC, audit log.

Both die with the test run (parent-death signal), also when it is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remediator.clock import SystemClock
from remediator.kube import paths
from remediator.kube.errors import Conflict
from remediator.kube.session import Session, connect
from tests.servers.ports import free_ports

CACHE = Path(os.environ.get("REMEDIATOR_CACHE", str(Path.home() / ".cache/remediator")))
BINARY = CACHE / "bin/kube"
START_S = 180.0
USERS = {"admin": "system:masters", "remediator": "", "nobody": ""}
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["slinky.slurm.net"], "resources": ["nodesets"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch"]},
]
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  resources: [{group: "", resources: [nodes, pods, pods/eviction]}]
- level: Metadata
"""
CERTS = """\
set -e
key() { openssl ecparam -name prime256v1 -genkey -noout -out $1.key; }
key ca; key server; key sa
openssl req -x509 -new -key ca.key -days 2 -subj /CN=test-ca -out ca.crt
openssl req -new -key server.key -subj /CN=kube-apiserver -out server.csr
printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\n' > san
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt
openssl ec -in sa.key -pubout -out sa.pub
"""


class KubeServer:
    """The running control plane; `kubeconfig(user)` and `session(user)` are how to reach it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.port, self._etcd_port, peer = free_ports(3)
        self.url = f"https://127.0.0.1:{self.port}"
        self.audit_log = work / "audit.log"
        self._peer = peer
        self.tokens = {user: f"{user}-{os.urandom(12).hex()}" for user in USERS}
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Write the files, start both processes, wait until ready, set up RBAC."""
        subprocess.run(["sh", "-c", CERTS], cwd=self.work, check=True, capture_output=True, timeout=30)
        (self.work / "audit-policy.yaml").write_text(AUDIT_POLICY)
        (self.work / "tokens.csv").write_text(
            "".join(
                f'{self.tokens[user]},{user},{user},"{group}"\n'
                if group
                else f"{self.tokens[user]},{user},{user}\n"
                for user, group in USERS.items()
            )
        )
        self._etcd = self._spawn("etcd", self._etcd_flags())
        self.start_api()
        self._allow()

    def start_api(self) -> None:
        """Start kube-apiserver (again) and wait for /readyz."""
        self._api = self._spawn("apiserver", self._api_flags())
        context = ssl.create_default_context(cafile=str(self.work / "ca.crt"))
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.tokens['admin']}"}
        )
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._api.poll() is not None:
                raise RuntimeError(f"kube-apiserver ended: {self._tail('apiserver')}")
            try:
                with urllib.request.urlopen(request, context=context, timeout=2):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"kube-apiserver is not ready after {START_S} s: {self._tail('apiserver')}")

    def stop_api(self) -> None:
        """Kill kube-apiserver only, as a crash would."""
        _end(self._api)

    def stop(self) -> None:
        """End both processes."""
        _end(self._api)
        _end(self._etcd)

    def kubeconfig(self, user: str = "remediator") -> Path:
        """A kubeconfig file for one of USERS."""
        path = self.work / f"{user}.conf"
        cluster = {"server": self.url, "certificate-authority": str(self.work / "ca.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return path

    def session(self, user: str = "remediator") -> Session:
        """A session as one of USERS."""
        return connect(self.kubeconfig(user), clock=SystemClock())

    def add_node(self, name: str, **spec: Any) -> str:
        """Create a Ready node; its uid."""
        admin = self.session("admin")
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"test": "1"}},
            "spec": {"providerID": f"lab://{name}", **spec},
        }
        made = admin.post(paths.NODES, body, deadline=5.0)
        assert made is not None
        status = {
            "nodeInfo": {"bootID": f"boot-{name}"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        admin.patch(f"{paths.node(name)}/status", {"status": status}, deadline=5.0)
        return str(made["metadata"]["uid"])

    def remove_node(self, name: str) -> None:
        """Delete a node."""
        admin = self.session("admin")
        found = admin.get(paths.node(name), deadline=5.0)
        if found:
            admin.delete(paths.node(name), found["metadata"]["uid"], deadline=5.0)

    def add_pod(self, namespace: str, name: str, node: str, labels: dict[str, str] | None = None) -> str:
        """Create a pod bound to a node; its uid."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "nodeName": node,
                "hostname": name,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "localhost/base:1"}],
            },
        }
        made = self.session("admin").post(f"/api/v1/namespaces/{namespace}/pods", body, deadline=5.0)
        assert made is not None
        return str(made["metadata"]["uid"])

    def audit(self, user: str = "remediator") -> list[dict[str, Any]]:
        """Audit events of one user so far, oldest first."""
        if not self.audit_log.exists():
            return []
        events = [json.loads(line) for line in self.audit_log.read_text().splitlines() if line.endswith("}")]
        return [event for event in events if event["user"].get("username") == user]

    def writes(self, user: str = "remediator", resource: str = "nodes") -> list[dict[str, Any]]:
        """Accepted writes of one user to one resource."""
        verbs = ("create", "update", "patch", "delete")
        return [
            event
            for event in self.audit(user)
            if event["verb"] in verbs
            and event.get("objectRef", {}).get("resource") == resource
            and event.get("responseStatus", {}).get("code", 500) < 300
        ]

    def _allow(self) -> None:
        admin = self.session("admin")
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        role = {"kind": "ClusterRole", "metadata": {"name": "remediator"}, "rules": RULES}
        binding = {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "remediator"},
            "roleRef": {"kind": "ClusterRole", "name": "remediator", "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "remediator", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        account = {"kind": "ServiceAccount", "metadata": {"name": "default"}}
        for path, body in (
            (f"{rbac}/clusterroles", role),
            (f"{rbac}/clusterrolebindings", binding),
            ("/api/v1/namespaces/default/serviceaccounts", account),
        ):
            self._create(admin, path, body)

    def _create(self, admin: Session, path: str, body: dict[str, Any]) -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                made = admin.post(path, body, deadline=5.0)
            except Conflict:
                return
            if made is not None:
                return
            assert time.monotonic() < until, f"namespace of {path} never appeared"
            time.sleep(0.05)

    def _etcd_flags(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer}"
        return [
            f"--data-dir={self.work}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]

    def _api_flags(self) -> list[str]:
        work = self.work
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={work}/server.crt",
            f"--tls-private-key-file={work}/server.key",
            f"--token-auth-file={work}/tokens.csv",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={work}/sa.pub",
            f"--service-account-signing-key-file={work}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.98.0.0/24",
            f"--audit-policy-file={work}/audit-policy.yaml",
            f"--audit-log-path={self.audit_log}",
        ]

    def _spawn(self, program: str, flags: list[str]) -> subprocess.Popen[bytes]:
        with (self.work / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(BINARY), program, *flags],
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _tail(self, program: str) -> str:
        return (self.work / f"{program}.log").read_text(errors="replace")[-2000:]


@pytest.fixture(scope="session")
def kube_server() -> Iterator[KubeServer]:
    """A control plane for the whole test session."""
    missing = [str(tool) for tool in (BINARY, "openssl", "setpriv") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not built yet, run `make test`: {', '.join(missing)}")
    work = Path(tempfile.mkdtemp(prefix="remediator-kube-"))
    server = KubeServer(work)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(work, ignore_errors=True)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        process.kill()
        process.wait(timeout=10)
