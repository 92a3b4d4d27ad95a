"""slurmrestd as the operator uses it: list nodes, update one node, data_parser v0.0.44."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import urllib3

from .model import Json, SlurmNode
from .plan import SetSlurm

PREFIX = "/slurm/v0.0.44"


class SlurmError(Exception):
    """slurmrestd refused or could not be reached; the text names the call, never the token."""


class SlurmRest:
    """Calls of at most 5 s, not repeated."""

    def __init__(self, url: str, token: Callable[[], str]) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._pool = urllib3.PoolManager(retries=False)

    def nodes(self) -> dict[str, SlurmNode]:
        """Every node that slurmctld knows, by name."""
        answer = self._call("GET", "/nodes/")
        return {n["name"]: SlurmNode.from_json(n) for n in answer.get("nodes") or ()}

    def update(self, change: SetSlurm) -> None:
        """Sends one node update."""
        fields = {
            "state": [change.state] if change.state else None,
            "reason": change.reason,
            "comment": change.comment,
        }
        body = {k: v for k, v in fields.items() if v is not None}
        self._call("POST", f"/node/{quote(change.node, safe='')}", body)

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = {"X-SLURM-USER-TOKEN": self._token(), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method, self._url + PREFIX + path, body=data, headers=headers, timeout=5.0
            )
            found = json.loads(answer.data or b"{}")
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise SlurmError(f"{method} {path}: {type(error).__name__}") from error
        errors = found.get("errors") or []
        if answer.status >= 400 or errors:
            text = "; ".join(str(e.get("description") or e.get("error")) for e in errors)
            raise SlurmError(f"{method} {path}: HTTP {answer.status} {text}")
        return dict(found)
