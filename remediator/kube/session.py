"""The one door to the API server: raw JSON, no silent retries, a deadline on every call."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from remediator.clock import Clock
from remediator.errors import BadInput, GiveUp, Retry
from remediator.kube import paths
from remediator.kube.deadline import Deadline
from remediator.kube.errors import Call, Json, answer_error, is_absent, lost_answer, transport_error

if TYPE_CHECKING:
    from remediator.kube.credentials import Credentials, Load

PAGE = 500
CONNECT_S = 3.0
MAX_BODY = 128 * 1024 * 1024
_CHUNK = 64 * 1024
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "patch": "PATCH",
    "delete": "DELETE",
}
_CONTENT_TYPES = {
    "create": "application/json",
    "patch": "application/merge-patch+json",
    "delete": "application/json",
}


@dataclass(frozen=True)
class Listing:
    """A consistent list: raw items and the resourceVersion to watch from."""

    items: tuple[Json, ...]
    resource_version: str


class Api(Protocol):
    """What drivers need of the API server; None means the object does not exist (404)."""

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Read one object."""

    def list(self, path: str, *, deadline: float, params: Mapping[str, str] | None = None) -> Listing:
        """Read all objects of a collection, page by page."""

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:
        """JSON merge patch; the object after it."""

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:
        """Create; `harmless` for reviews, whose lost answer is no ambiguity."""

    def delete(self, path: str, uid: str, *, deadline: float, grace: int | None = None) -> Json | None:
        """Delete this very object; Conflict when another one bears its name. `grace` in seconds."""


class Stream:
    """The body of an open watch; `close` may be called from another thread and ends a stuck read."""

    def __init__(self, call: Call, response: urllib3.BaseHTTPResponse) -> None:
        self._call = call
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        """Bytes as they arrive, until the server ends the answer; Retry when the connection fails."""
        try:
            while chunk := self._response.read1(_CHUNK):
                yield chunk
        except HTTPError as error:
            raise transport_error(self._call, error) from error
        finally:
            self._response.close()

    def close(self) -> None:
        """Shut the socket down; the reading thread sees the end and cleans up."""
        with suppress(ValueError, RuntimeError, OSError):  # already ended or released
            self._response.shutdown()


class Session:
    """One connection pool per process. `deadline` is in seconds; a trickled body may take it twice."""

    def __init__(self, load: Load, clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._credentials = load()
        self._lock = threading.Lock()

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Read one object; None when it does not exist."""
        return self._ask(Call("get", path, writes=False), None, Deadline(deadline, self._clock))

    def list(self, path: str, *, deadline: float, params: Mapping[str, str] | None = None) -> Listing:
        """Read a whole collection; Gone when it changed too much meanwhile."""
        pages = tuple(self.pages(path, deadline=deadline, params=params))
        return Listing(tuple(item for page in pages for item in page.items), pages[0].resource_version)

    def pages(
        self, path: str, *, deadline: float, params: Mapping[str, str] | None = None
    ) -> Iterator[Listing]:
        """Read a collection in pages of 500. Watch from the first page's version: that misses nothing."""
        call, until = Call("list", path, writes=False), Deadline(deadline, self._clock)
        token = ""
        while True:
            query = {"limit": str(PAGE), **(params or {}), **({"continue": token} if token else {})}
            page = self._ask(call, None, until, query)
            if page is None:
                raise GiveUp(f"{call}: the API server does not serve this resource")
            found, meta = page.get("items"), page.get("metadata")
            if not isinstance(found, list | None) or not isinstance(meta, dict):
                raise Retry(f"{call}: the answer is no list")
            yield Listing(tuple(found or ()), str(meta.get("resourceVersion") or ""))
            token = str(meta.get("continue") or "")
            if not token:
                return

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:
        """JSON merge patch; put `metadata.resourceVersion` in `body` to make a lost race a Conflict."""
        return self._ask(Call("patch", path, writes=True), body, Deadline(deadline, self._clock))

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:
        """Create an object, an eviction or a review; Conflict when it exists."""
        return self._ask(Call("create", path, writes=not harmless), body, Deadline(deadline, self._clock))

    def delete(self, path: str, uid: str, *, deadline: float, grace: int | None = None) -> Json | None:
        """Delete the object with this uid; None when it is gone, Conflict when the name was reused.
        `grace` in seconds; None leaves it to the object.
        """
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        return self._ask(Call("delete", path, writes=True), body, Deadline(deadline, self._clock))

    def watch(self, path: str, *, params: Mapping[str, str], read_timeout: float) -> Stream:
        """Open a watch; a silence longer than `read_timeout` ends it with Retry."""
        call = Call("watch", path, writes=False)
        timeout = urllib3.Timeout(connect=CONNECT_S, read=read_timeout)
        response = self._authenticated(call, None, timeout, params)
        if response.status == 200:
            return Stream(call, response)
        body = self._body(call, response, Deadline(CONNECT_S, self._clock))
        raise answer_error(call, response.status, response.headers, _parsed(body))

    def server_time(self, *, deadline: float) -> float:
        """The API server's clock, in whole seconds since the epoch; Retry when it does not say."""
        call = Call("get", paths.VERSION, writes=False)
        _, headers, _ = self._exchange(call, None, Deadline(deadline, self._clock), None)
        try:
            return parsedate_to_datetime(headers.get("Date", "")).timestamp()
        except ValueError:
            raise Retry(f"{call}: the answer bears no date") from None

    def _ask(
        self, call: Call, body: Json | None, until: Deadline, query: Mapping[str, str] | None = None
    ) -> Json | None:
        status, headers, parsed = self._exchange(call, body, until, query)
        if status == 403:
            self._require_ready(until, str(answer_error(call, status, headers, parsed)))
            status, headers, parsed = self._exchange(call, body, until, query)
        if is_absent(status, parsed):
            return None
        if not 200 <= status < 300:
            raise answer_error(call, status, headers, parsed)
        if not isinstance(parsed, dict) or parsed.get("status") == "Failure":
            raise lost_answer(call, "the answer is not a JSON object")
        return parsed

    def _require_ready(self, until: Deadline, refusal: str) -> None:
        """A starting API server refuses everybody with 403 until its RBAC is loaded."""
        status, _, _ = self._exchange(Call("get", "/readyz", writes=False), None, until, None)
        if status != 200:
            raise Retry(f"{refusal} (but /readyz says {status}: the API server may be starting)")

    def _exchange(
        self, call: Call, body: Json | None, until: Deadline, query: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, str], object]:
        left = until.left()
        timeout = urllib3.Timeout(total=left, connect=min(left, CONNECT_S))
        response = self._authenticated(call, body, timeout, query)
        return response.status, response.headers, _parsed(self._body(call, response, until))

    def _authenticated(
        self, call: Call, body: Json | None, timeout: urllib3.Timeout, query: Mapping[str, str] | None
    ) -> urllib3.BaseHTTPResponse:
        used = self._credentials
        response = self._send(used, call, body, timeout, query)
        if response.status != 401:
            return response
        response.close()
        return self._send(self._reread(used, call), call, body, timeout.clone(), query)

    def _reread(self, used: Credentials, call: Call) -> Credentials:
        with self._lock:
            if self._credentials is used:
                try:
                    self._credentials = self._load()
                except BadInput as error:
                    raise GiveUp(f"{call}: HTTP 401, and {error}") from error
            return self._credentials

    def _send(
        self,
        credentials: Credentials,
        call: Call,
        body: Json | None,
        timeout: urllib3.Timeout,
        query: Mapping[str, str] | None,
    ) -> urllib3.BaseHTTPResponse:
        headers = credentials.headers(self._clock.steady())
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPES[call.verb]
        try:
            return credentials.send(
                _METHODS[call.verb],
                call.path + (f"?{urlencode(query)}" if query else ""),
                None if body is None else json.dumps(body).encode(),
                headers,
                timeout,
            )
        except HTTPError as error:
            raise transport_error(call, error) from error

    def _body(self, call: Call, response: urllib3.BaseHTTPResponse, until: Deadline) -> bytearray:
        read = bytearray()
        try:
            while chunk := response.read1(_CHUNK):
                read += chunk
                if until.passed() or len(read) > MAX_BODY:
                    response.close()
                    raise lost_answer(call, "the answer was too slow or too large")
        except HTTPError as error:
            response.close()
            raise transport_error(call, error) from error
        response.release_conn()
        return read


def connect(kubeconfig: Path | None, *, clock: Clock, pool_size: int = 20) -> Session:
    """Session from a kubeconfig file, or from the pod's service account when None.
    `pool_size`: workers + watches + 4.
    """
    # half a second of a library that a verb which only reads the store never needs
    from remediator.kube.credentials import loader  # noqa: PLC0415

    return Session(loader(kubeconfig, pool_size), clock)


def _parsed(body: bytearray) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
