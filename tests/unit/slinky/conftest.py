"""The real API server for the tests of this folder that need one."""

from __future__ import annotations

from tests.servers.kube import kube_server

__all__ = ["kube_server"]
