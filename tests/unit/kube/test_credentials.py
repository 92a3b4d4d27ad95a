"""Configuration from files: what is wrong is said with its field, never with its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.clock import SystemClock
from remediator.errors import BadInput, Retry
from remediator.kube.credentials import loader
from remediator.kube.session import connect

IN_CLUSTER = "kubernetes.config.incluster_config"


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
    assert credentials.headers()["Authorization"] == "bearer t1"
    token.unlink()
    hook: Any = credentials.configuration.refresh_api_key_hook
    cells = {
        name: cell.cell_contents
        for name, cell in zip(hook.__code__.co_freevars, hook.__closure__, strict=True)
    }
    cells["self"].token_expires_at = cells["self"].token_expires_at.min
    with pytest.raises(Retry, match="token cannot be read"):
        credentials.headers()
