"""Where the API server is and who we are: the official client's loader, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from yaml import YAMLError

from remediator import __version__
from remediator.errors import BadInput, Retry

Load = Callable[[], "Credentials"]


@dataclass(frozen=True)
class Credentials:
    """One loaded configuration with its connection pool; replaced as a whole after a 401."""

    configuration: Configuration
    pool: urllib3.PoolManager

    def url(self, path: str) -> str:
        """Full address of an API path."""
        return str(self.configuration.host).rstrip("/") + path

    def headers(self) -> dict[str, str]:
        """User agent and bearer token; projected tokens are read again every minute by the loader.
        Retry when the token file cannot be read.
        """
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
            pool = RESTClientObject(configuration).pool_manager
        except (ConfigException, OSError, YAMLError, ValueError, TypeError) as error:
            where = kubeconfig or "the pod's service account"
            raise BadInput(
                "kubernetes.kubeconfig",
                f"{where} cannot be loaded ({type(error).__name__}); run it in the controller's pod, "
                "or name a readable kubeconfig",
            ) from error
        return Credentials(configuration, pool)

    return load


def _fill(configuration: Configuration, kubeconfig: Path | None) -> None:
    if kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        load_kube_config(  # type: ignore[no-untyped-call]  # the client's loader is not annotated
            config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
        )
