"""A small Kubernetes client: raw JSON over HTTPS with a ServiceAccount token, and watches as doorbells."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from .model import Json

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
CUSTOM = "/apis/slinky.slurm.net/v1beta1"
WATCH_SECONDS = 300


class KubeError(Exception):
    """The API server refused (its HTTP status) or could not be reached (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Kube:
    """Calls of at most 5 s, not repeated; the token is read anew for each, since it rotates."""

    def __init__(self, url: str, token_file: Path, ca_file: Path) -> None:
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._pool = urllib3.PoolManager(ca_certs=str(ca_file), retries=False, maxsize=8)

    @classmethod
    def in_cluster(cls) -> Kube:
        """The client of a pod."""
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        files = Path(SERVICE_ACCOUNT)
        return cls(f"https://{host}:{port}", files / "token", files / "ca.crt")

    def items(self, path: str, **query: str) -> list[Json]:
        """The items of a collection."""
        return list(self._call("GET", _with(path, query))["items"])

    def get(self, path: str) -> Json | None:
        """One object, or None when there is none."""
        try:
            return self._call("GET", path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Json) -> bool:
        """Creates an object; False when one of that name is there already."""
        try:
            self._call("POST", path, body)
        except KubeError as error:
            if error.status == 409:
                return False
            raise
        return True

    def patch(self, path: str, body: Json, kind: str = MERGE_PATCH) -> None:
        """Patches an object; one that is gone meanwhile needs no patch."""
        try:
            self._call("PATCH", path, body, kind)
        except KubeError as error:
            if error.status != 404:
                raise

    def delete(self, path: str, uid: str) -> None:
        """Deletes exactly the object with this UID."""
        try:
            self._call("DELETE", path, {"preconditions": {"uid": uid}})
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    def watch(self, path: str, **query: str) -> Iterator[tuple[str, Json]]:
        """Every object of a collection, then each change as it comes, until the server ends the stream.
        Each with what happened to it: ADDED, MODIFIED, DELETED, ERROR.
        """
        query |= {"watch": "1", "timeoutSeconds": str(WATCH_SECONDS)}
        answer = self._open(
            "GET",
            _with(path, query),
            timeout=urllib3.Timeout(connect=5, read=WATCH_SECONDS + 10),
            stream=True,
        )
        try:
            for line in _lines(answer):
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            answer.close()

    def _call(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        answer = self._open(method, path, body, kind)
        return dict(json.loads(answer.data))

    def _open(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        kind: str = "application/json",
        *,
        timeout: urllib3.Timeout | float = 5.0,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Authorization": f"Bearer {self._token_file.read_text().strip()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method,
                self._url + path,
                body=data,
                headers=headers,
                timeout=timeout,
                preload_content=not stream,
            )
        except urllib3.exceptions.HTTPError as error:
            raise KubeError(0, f"{method} {path}: {type(error).__name__}") from error
        if answer.status >= 400:
            raise KubeError(answer.status, f"{method} {path}: {_message(answer.data)}")
        return answer


class Doorbell:
    """Rings when a watched object changed in a part that matters; the listener then lists for itself."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._rung = threading.Event()

    def listen(self, path: str, part: Callable[[Json], Any], **query: str) -> None:
        """Starts watching; `part` is what of an object has to change for the bell to ring."""
        threading.Thread(target=self._follow, args=(path, part, query), daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits for the bell at most `seconds`; True when it rang."""
        rang = self._rung.wait(max(0.0, seconds))
        self._rung.clear()
        return rang

    def _follow(self, path: str, part: Callable[[Json], Any], query: dict[str, str]) -> None:
        seen: dict[str, Any] = {}
        while True:
            try:
                for event, found in self._kube.watch(path, **query):
                    uid = found.get("metadata", {}).get("uid", "")
                    new = part(found) if event in ("ADDED", "MODIFIED") else None
                    if seen.get(uid) != new:
                        seen[uid] = new
                        self._rung.set()
            except (KubeError, urllib3.exceptions.HTTPError, OSError, ValueError):
                # Nothing is lost: a new watch begins with every object, and the bell makes the listener look.
                self._rung.set()
                time.sleep(1.0)


def _with(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body).get("message", ""))
    except ValueError:
        return body[:200].decode(errors="replace")
