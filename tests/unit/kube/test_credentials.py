"""Configuration from files: what is wrong is said with its field, never with its content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remediator.clock import SystemClock
from remediator.errors import BadInput, Retry
from remediator.kube.credentials import TOKEN_S, loader
from remediator.kube.session import connect
from tests.servers.kube_scripted import Server, serving

IN_CLUSTER = "kubernetes.config.incluster_config"


def kubeconfig(folder: Path, **cluster: str) -> Path:
    """A file that names one cluster and nobody."""
    file = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    clusters = [{"name": "c", "cluster": cluster}]
    file.write_text(
        json.dumps({"current-context": "c", "contexts": [context], "users": users, "clusters": clusters})
    )
    return file


@pytest.mark.parametrize(
    "text", [None, "", "{", "just text", "users: [{name: u, user: {token: s3cret}}]", "[1]"]
)
def test_a_broken_kubeconfig_is_bad_input_without_its_content(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadInput, match=r"kubernetes\.kubeconfig") as caught:
        connect(path, clock=SystemClock())
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("server", ["", "https://", "ftp://x:1", "unix:///x", "http://x:99999999"])
def test_an_address_that_is_none_is_bad_input(tmp_path: Path, server: str) -> None:
    with pytest.raises(BadInput, match=r"kubernetes\.kubeconfig"):
        connect(kubeconfig(tmp_path, server=server), clock=SystemClock())


def test_an_address_without_a_scheme_is_http(tmp_path: Path) -> None:
    with serving(Server(lambda handler: handler.reply(200, {"at": handler.path}))) as server:
        file = kubeconfig(tmp_path, server=server.url.removeprefix("http://"))
        assert connect(file, clock=SystemClock()).get("/version", deadline=5.0) == {"at": "/version"}


def test_outside_a_cluster_without_kubeconfig_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadInput, match="service account"):
        connect(None, clock=SystemClock())


def test_a_token_file_that_vanishes_is_a_retry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("t1\n")
    ca.write_text(Path("/etc/ssl/certs/ca-certificates.crt").read_text())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(f"{IN_CLUSTER}.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(f"{IN_CLUSTER}.SERVICE_CERT_FILENAME", str(ca))
    credentials = loader(None, 4)()
    assert credentials.headers(0.0)["Authorization"] == "bearer t1"
    token.unlink()
    hook: Any = credentials.configuration.refresh_api_key_hook
    cells = {
        name: cell.cell_contents
        for name, cell in zip(hook.__code__.co_freevars, hook.__closure__, strict=True)
    }
    cells["self"].token_expires_at = cells["self"].token_expires_at.min
    with pytest.raises(Retry, match="token cannot be read"):
        credentials.headers(TOKEN_S)
    token.write_text("t2\n")
    assert credentials.headers(TOKEN_S)["Authorization"] == "bearer t2"


@pytest.mark.parametrize("above", ["", "/k8s/clusters/c-1"])
def test_the_api_server_may_be_below_a_path(tmp_path: Path, above: str) -> None:
    """Rancher and others serve many clusters at one address."""
    with serving(Server(lambda handler: handler.reply(200, {"at": handler.path}))) as server:
        session = connect(kubeconfig(tmp_path, server=f"{server.url}{above}/"), clock=SystemClock())
        assert session.get("/api/v1/nodes/gpu-0", deadline=5.0) == {"at": f"{above}/api/v1/nodes/gpu-0"}


def test_a_proxy_is_told_the_whole_address(tmp_path: Path) -> None:
    with serving(Server(lambda handler: handler.reply(200, {"at": handler.path}))) as proxy:
        file = kubeconfig(tmp_path, server="http://api.example:6443", **{"proxy-url": proxy.url})
        session = connect(file, clock=SystemClock())
        assert session.get("/version", deadline=5.0) == {"at": "http://api.example:6443/version"}
