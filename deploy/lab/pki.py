"""The lab's certificate authority, certificates, tokens and kubeconfigs, made anew at each start."""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.layout import Layout
from deploy.lab.spec import API_PORT, CONTROL_PLANE, KUBERNETES_SERVICE, NODES

SERVER_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
    "DNS:localhost",
    f"IP:{CONTROL_PLANE}",
    f"IP:{KUBERNETES_SERVICE}",
    "IP:127.0.0.1",
)
"""Every name and address under which the API server is reached."""

_USERS = {
    "admin": ("lab-admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}


def make(layout: Layout) -> None:
    """Write it all to the lab's pki folder: ca.crt, server.*, kubelet-client.*, sa.*, tokens.csv, *.conf."""
    layout.pki.mkdir(mode=0o700)
    _authority(layout.pki)
    _certificate(layout.pki, "server", "/CN=kube-apiserver", f"subjectAltName={','.join(SERVER_NAMES)}")
    _certificate(
        layout.pki, "kubelet-client", "/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth"
    )
    _service_account_keys(layout.pki)
    _tokens(layout)


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode != 0:
        raise LabError(f"openssl {arguments[0]} failed: {done.stderr.strip().splitlines()[-1]}")


def _authority(folder: Path) -> None:
    _sign(folder, "ca", "/CN=lab-ca")


def _certificate(folder: Path, name: str, subject: str, extension: str) -> None:
    extensions = ("-addext", extension, "-addext", "basicConstraints=critical,CA:FALSE")
    _sign(folder, name, subject, *extensions, "-CA", "ca.crt", "-CAkey", "ca.key")


def _sign(folder: Path, name: str, subject: str, *more: str) -> None:
    """A new key NAME.key with a certificate NAME.crt, signed by itself unless `more` names an authority."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key")
    _openssl(folder, "req", "-x509", *key, "-days", "30", "-subj", subject, *more, "-out", f"{name}.crt")


def _service_account_keys(folder: Path) -> None:
    _openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")
    _openssl(folder, "ec", "-in", "sa.key", "-pubout", "-out", "sa.pub")


def _tokens(layout: Layout) -> None:
    """One static token a user: enough for a lab that nobody outside can reach."""
    users = dict(_USERS)
    users.update({node.name: (f"system:node:{node.name}", "system:nodes") for node in NODES})
    lines = []
    for file, (user, group) in users.items():
        token = secrets.token_hex(24)
        lines.append(f"{token},{user},{file}{f',{group}' if group else ''}\n")
        _write(layout.pki / f"{file}.conf", kubeconfig(layout, token))
        _write(layout.pki / f"{file}.token", token)
    _write(layout.pki / "tokens.csv", "".join(lines))


def kubeconfig(layout: Layout, token: str) -> str:
    """A kubeconfig (JSON, which is YAML) for one token."""
    cluster = {
        "server": f"https://{CONTROL_PLANE}:{API_PORT}",
        "certificate-authority": str(layout.pki / "ca.crt"),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        }
    )


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
