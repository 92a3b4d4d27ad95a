"""The control plane's parts: etcd, API server, controller manager, scheduler, and its own kube-proxy."""

from __future__ import annotations

import json

from deploy.lab.control import Part
from deploy.lab.layout import Layout
from deploy.lab.spec import API_PORT, CLUSTER_CIDR, CONTROL_PLANE, NODES, SERVICE_CIDR

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def write_files(layout: Layout) -> None:
    """The files the parts read, in the lab's own folder."""
    (layout.root / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
    # Under the name of a node that exists: kube-proxy waits half a minute for any other.
    (layout.root / "proxy-lab.json").write_text(proxy_config(layout, NODES[0].name, CONTROL_PLANE))


def _part(layout: Layout, name: str, *arguments: str) -> Part:
    argv = (str(layout.binary("kube")), name, *arguments)
    return Part(name, argv, str(layout.logs / f"{name}.log"))


def etcd(layout: Layout) -> Part:
    """The store, on a tmpfs: a lab's state dies with it."""
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return _part(
        layout,
        "etcd",
        "--data-dir",
        "/var/lib/etcd",
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
        "--listen-peer-urls",
        peer,
        "--initial-advertise-peer-urls",
        peer,
        "--initial-cluster",
        f"default={peer}",
        "--unsafe-no-fsync",
        "--log-level",
        "warn",
    )


def apiserver(layout: Layout) -> Part:
    """The API server: TLS with the lab's CA, Node and RBAC authorization, an audit log of every request."""
    pki = layout.pki
    return _part(
        layout,
        "apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={CONTROL_PLANE}",
        f"--tls-cert-file={pki}/server.crt",
        f"--tls-private-key-file={pki}/server.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--token-auth-file={pki}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={layout.root}/audit-policy.json",
        f"--audit-log-path={layout.logs}/audit.log",
    )


def controllers(layout: Layout) -> Part:
    """The controller manager; a silent node turns Unknown after 40 s, as by default."""
    pki = layout.pki
    return _part(
        layout,
        "controllers",
        f"--kubeconfig={pki}/controllers.conf",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/sa.key",
        "--use-service-account-credentials",
        "--kube-api-qps=200",  # it asks for a token for each of its controllers first
        "--kube-api-burst=400",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--secure-port=10257",
        "--node-monitor-grace-period=40s",
        "--profiling=false",
    )


def scheduler(layout: Layout) -> Part:
    """The scheduler."""
    return _part(
        layout,
        "scheduler",
        f"--kubeconfig={layout.pki}/scheduler.conf",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--secure-port=10259",
        "--profiling=false",
    )


def proxy(layout: Layout) -> Part:
    """Service addresses for the programs in the control plane's own network."""
    return _part(layout, "proxy", f"--config={layout.root}/proxy-lab.json")


def proxy_config(layout: Layout, node: str, address: str) -> str:
    """A kube-proxy configuration: nftables, and no machine-wide sysctl touched."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": node,
            "clientConnection": {"kubeconfig": str(layout.pki / "proxy.conf")},
            "bindAddress": address,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "clusterCIDR": CLUSTER_CIDR,
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
            "nftables": {"minSyncPeriod": "100ms"},
        }
    )
