"""Whom the backfill asks for firing alerts: Alertmanager, and Prometheus through its own client."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from remediator.errors import BadInput, Retry
from remediator.signals.alertmanager import Alert, listed, sampled

LONGEST_ANSWER = 64 * 1024 * 1024
# Firing alerts and the second they became active: Alertmanager's `startsAt` for rules without `for`.
QUERY = 'ALERTS_FOR_STATE and ignoring(alertstate) ALERTS{alertstate="firing"}'

Result = TypeVar("Result")


class Source(Protocol):
    """A server that knows which alerts fire."""

    name: str

    def firing(self) -> list[Alert | None]:
        """All of them, None where one cannot be read; Retry when the server does not answer."""


class AlertmanagerSource:
    """GET /api/v2/alerts, silenced ones too: what is silenced there must not come in by Prometheus."""

    name = "alertmanager"

    def __init__(self, url: str, token_path: Path | None, deadline_s: float) -> None:
        path = "/api/v2/alerts?active=true&silenced=true&inhibited=true&unprocessed=false"
        self._bounded = _Bounded(_Get(url + path, token_path, deadline_s), self.name, deadline_s)

    def firing(self) -> list[Alert | None]:
        """All alerts it has not seen resolved."""
        return _read(listed, self._bounded())


class PrometheusRules:
    """GET /api/v1/rules: which alerts Prometheus knows, firing or not."""

    def __init__(self, url: str, token_path: Path | None, deadline_s: float) -> None:
        get = _Get(f"{url}/api/v1/rules?type=alert", token_path, deadline_s)
        self._bounded = _Bounded(get, "prometheus", deadline_s)

    def alerts(self) -> frozenset[str]:
        """Names of all alerting rules; Retry when it does not answer."""
        try:
            groups = json.loads(self._bounded())["data"]["groups"]
            return frozenset(str(rule["name"]) for group in groups for rule in group["rules"])
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Retry("Prometheus' answer has another form") from None


class _Get:
    """One plain GET of a whole body, without redirects."""

    def __init__(self, url: str, token_path: Path | None, deadline_s: float) -> None:
        self._url = url
        self._token_path = token_path
        self._pool = urllib3.PoolManager(
            num_pools=1, maxsize=1, retries=False, timeout=urllib3.Timeout(total=deadline_s)
        )

    def __call__(self) -> bytes:
        try:
            answer = self._pool.request(
                "GET", self._url, headers=_headers(self._token_path), redirect=False, preload_content=False
            )
            body = answer.read(LONGEST_ANSWER)
            answer.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Retry(f"no answer: {type(error).__name__}") from None
        if answer.status != 200 or len(body) >= LONGEST_ANSWER:
            raise Retry(f"status {answer.status}, {len(body)} bytes")
        return body


class PrometheusSource:
    """An instant query of the ALERTS series."""

    name = "prometheus"

    def __init__(self, url: str, token_path: Path | None, deadline_s: float) -> None:
        self._query = PrometheusQuery(url, token_path, deadline_s)

    def firing(self) -> list[Alert | None]:
        """All alerts in state firing."""
        return _read(sampled, self._query(QUERY))


class PrometheusQuery:
    """Instant queries, asked once and never for longer than the deadline; Retry is no answer."""

    def __init__(self, url: str, token_path: Path | None, deadline_s: float) -> None:
        session = requests.Session()
        session.trust_env = False  # no proxy and no password of the environment
        session.max_redirects = 0
        self._token_path = token_path
        self._client = PrometheusConnect(
            url,
            retry=urllib3.Retry(total=0, redirect=0, respect_retry_after_header=False),
            session=session,
            timeout=deadline_s,
        )
        self._bounded = _Bounded(self._ask, "prometheus", deadline_s)

    def __call__(self, query: str, at: float | None = None) -> object:
        """What Prometheus has for `query` at second `at`, its own present one if None."""
        return self._bounded(query, at)

    def _ask(self, query: str, at: float | None) -> object:
        self._client.headers = _headers(self._token_path)
        params = {} if at is None else {"time": f"{at:.3f}"}
        try:
            return self._client.custom_query(query, params=params)
        except (requests.RequestException, PrometheusApiClientException, OSError) as error:
            # the text may quote the whole answer
            raise Retry(f"no answer: {type(error).__name__}") from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise Retry("its answer has another form") from None


class _Bounded(Generic[Result]):
    """A call that is over after `seconds`: the clients' own timeouts begin anew with every byte.

    A call that hangs is left to its thread, and no second one is begun before it ends.
    """

    def __init__(self, call: Callable[..., Result], name: str, seconds: float) -> None:
        self._call = call
        self._name = name
        self._seconds = seconds
        self._busy = threading.Lock()

    def __call__(self, *asked: object) -> Result:
        if not self._busy.acquire(blocking=False):
            raise Retry("the last request has not ended")
        answer: list[Result | Retry] = []
        done = threading.Event()
        threading.Thread(target=self._run, args=(answer, done, asked), name=self._name, daemon=True).start()
        if not done.wait(self._seconds):
            raise Retry(f"no answer within {self._seconds:.1f} s")
        result = answer[0]
        if isinstance(result, Retry):
            raise result
        return result

    def _run(self, answer: list[Result | Retry], done: threading.Event, asked: tuple[object, ...]) -> None:
        try:
            answer.append(self._call(*asked))
        except Retry as error:
            answer.append(error)
        except Exception as error:  # noqa: BLE001 - boundary: what a client library throws is no answer
            answer.append(Retry(f"no answer: {type(error).__name__}"))
        finally:
            self._busy.release()
            done.set()


def _read(parse: Callable[[Result], list[Alert | None]], answer: Result) -> list[Alert | None]:
    try:
        return parse(answer)
    except BadInput as error:
        raise Retry(f"its answer {error.problem}") from None


def _headers(token_path: Path | None) -> dict[str, str]:
    if token_path is None:
        return {}
    try:
        token = token_path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise Retry(f"cannot read {token_path}") from None
    if not token.isprintable():
        raise Retry(f"{token_path} holds no token")
    return {"Authorization": f"Bearer {token}"}
