"""Keeps the process small: without what libraries load and an agent never uses, and without freed memory."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from types import ModuleType
from typing import Any

# glibc's numbers of what is set: one arena, and at most 64 KiB that stay after a large block was freed
_MALLOC = ((-8, 1), (-3, 64 * 1024), (-1, 64 * 1024), (-2, 16 * 1024))

_PUSH_GATEWAY = (
    "BaseHandler",
    "build_opener",
    "HTTPHandler",
    "HTTPRedirectHandler",
    "HTTPSHandler",
    "Request",
)


_TLS_SERVER = ("SSLContext", "TLSVersion", "PROTOCOL_TLS_CLIENT", "PROTOCOL_TLS_SERVER")
"""What prometheus_client names in the signatures of a server and a client that the agent has no use for."""

_CONTROLLER = "REMEDIATOR_AGENT_CONTROLLER_URL"


def prepare() -> None:
    """Before anything else is imported."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for number, value in _MALLOC:
            libc.mallopt(number, value)
    # structlog's, for a console, for coroutines and for loggers that are sent elsewhere
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    _later("asyncio")
    _later("pickle", PicklingError=ValueError)
    # http.server's, for pages that list files
    _later("html")
    _later("shutil")
    # prometheus_client's, for a push gateway
    _later("urllib.error", HTTPError=OSError)
    _later("urllib.request", **dict.fromkeys(_PUSH_GATEWAY, object))
    # pydantic's, to look for its plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _later("importlib.metadata", "entry_points", "version")
    if os.environ.get(_CONTROLLER, "").startswith("http://"):
        _without_tls()


def _without_tls() -> None:
    """4 MB of OpenSSL that an agent never uses whose controller is asked in the clear: urllib3 and hashlib do
    as on a Python that was built without it; whoever else wants TLS can have it.
    """
    absent = {"ssl": None, "_hashlib": None}
    sys.modules.update(absent)  # type: ignore[arg-type]
    for name in ("hashlib", "hmac", "http.client", "urllib3"):
        importlib.import_module(name)
    for name in absent:
        del sys.modules[name]
    _later("ssl", **dict.fromkeys(_TLS_SERVER, object))


def _later(name: str, *functions: str, **placed: Any) -> None:
    """Let `import name` succeed without it, and `from name import` of these functions and of what is `placed`
    in its stead: it is loaded when anything else in it is used, or when one of the functions is called.
    """
    stub = ModuleType(name)

    def load(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # the import system's own look is no use
        if sys.modules.get(name) is stub:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    def late(function: str) -> Any:
        return lambda *arguments: load(function)(*arguments)  # noqa: PLW0108 - loaded by the call, not before

    stub.__dict__.update({function: late(function) for function in functions} | placed)
    stub.__getattr__ = load  # type: ignore[method-assign]
    sys.modules.setdefault(name, stub)
