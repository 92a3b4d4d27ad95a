"""Reads the lab's Kubernetes API directly: cheaper than one kubectl a question."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.lab import network
from deploy.lab.control import Control
from deploy.lab.errors import LabError
from deploy.lab.layout import Layout
from deploy.lab.spec import API_PORT, CONTROL_PLANE


class KubeApi:
    """GET requests as the lab's administrator, sent from inside the lab's network; the server is verified."""

    def __init__(self, layout: Layout, control: Control) -> None:
        self._pki = layout.pki
        self._control = control

    def get(self, path: str) -> dict[str, Any]:
        """The JSON object at an API path; LabError when the server does not answer or refuses."""
        answer: dict[str, Any] = json.loads(self._inside(lambda: self._fetch(path)))
        return answer

    def is_ready(self) -> bool:
        """True once /readyz says so."""
        try:
            return self._inside(lambda: self._fetch("/readyz")) == b"ok"
        except LabError:
            return False

    def ready_nodes(self) -> set[str]:
        """Names of the nodes whose Ready condition is True."""
        return {
            node["metadata"]["name"]
            for node in self.get("/api/v1/nodes")["items"]
            if condition(node) == "True"
        }

    def _inside(self, function: Callable[[], bytes]) -> bytes:
        pid = self._control.first_pid()
        if pid is None:
            raise LabError(f"{self._control.what} is not up: `make lab-up`, or `python -m deploy.lab up`")
        return network.inside(pid, function)

    def _fetch(self, path: str) -> bytes:
        token = (self._pki / "admin.token").read_text()
        url = f"https://{CONTROL_PLANE}:{API_PORT}{path}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        context = ssl.create_default_context(cafile=str(Path(self._pki) / "ca.crt"))
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as response:  # noqa: S310 (https)
                data: bytes = response.read()
        except (urllib.error.URLError, OSError) as error:
            raise LabError(f"the API server does not answer {path}: {error}") from None
        return data


def condition(item: dict[str, Any], kind: str = "Ready") -> str:
    """Status of one condition of a node or pod: True, False or Unknown; empty when it is not there."""
    for entry in item["status"].get("conditions", []):
        if entry["type"] == kind:
            return str(entry["status"])
    return ""
