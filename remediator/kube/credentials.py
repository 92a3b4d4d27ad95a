"""Where the API server is and who we are: the official client's loader, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.util import parse_url
from yaml import YAMLError

from remediator import __version__
from remediator.errors import BadInput, Retry

TOKEN_S = 10.0
Load = Callable[[], "Credentials"]


class Credentials:
    """One loaded configuration with its connection pool; replaced as a whole after a 401."""

    def __init__(self, configuration: Configuration, pool: urllib3.PoolManager) -> None:
        self.configuration = configuration
        server = parse_url(str(configuration.host).rstrip("/"))
        self._door = pool.connection_from_url(server.url)
        # A proxy wants the whole address, but for https, which goes through it as through a tunnel.
        whole = pool.proxy is not None and server.scheme != "https"
        self._above = server.url if whole else server.path or ""
        self._kept: tuple[float, dict[str, str]] | None = None

    def send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        """One request, never sent again; its answer's body is yet to be read. Errors are urllib3's."""
        return self._door.urlopen(
            method,
            self._above + path,
            body=body,
            headers=headers,
            timeout=timeout,
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
        )

    def headers(self, now: float) -> dict[str, str]:
        """User agent and bearer token; `now` in `Clock.steady` seconds. The loader, which reads a projected
        token again every minute and looks through the whole environment each time, is asked every 10 seconds.
        Retry when the token file cannot be read.
        """
        kept = self._kept
        if kept is None or not 0 <= now - kept[0] < TOKEN_S:
            kept = self._kept = now, self._read()
        return dict(kept[1])

    def _read(self) -> dict[str, str]:
        headers = {"User-Agent": f"remediator/{__version__}", "Accept": "application/json"}
        try:
            bearer = self.configuration.auth_settings().get("BearerToken")
        except (ConfigException, OSError) as error:
            raise Retry(f"the API token cannot be read ({type(error).__name__})") from error
        if bearer and bearer["value"]:
            headers["Authorization"] = bearer["value"].strip()
        return headers


def loader(kubeconfig: Path | None, pool_size: int) -> Load:
    """A function that reads the pod's service account, or `kubeconfig` when given; BadInput if it cannot."""

    def load() -> Credentials:
        configuration = Configuration()
        configuration.connection_pool_maxsize = pool_size
        try:
            _fill(configuration, kubeconfig)
            return Credentials(configuration, RESTClientObject(configuration).pool_manager)
        except (ConfigException, OSError, YAMLError, ValueError, TypeError) as error:
            where = kubeconfig or "the pod's service account"
            raise BadInput(
                "kubernetes.kubeconfig",
                f"{where} cannot be loaded ({type(error).__name__}); run it in the controller's pod, "
                "or name a readable kubeconfig",
            ) from error

    return load


def _fill(configuration: Configuration, kubeconfig: Path | None) -> None:
    if kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        load_kube_config(  # type: ignore[no-untyped-call]  # the client's loader is not annotated
            config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
        )
