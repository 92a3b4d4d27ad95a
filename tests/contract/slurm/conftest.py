"""The two worlds the contract is checked in: a real Slurm, and the fake in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remediator.clock import ManualClock, SystemClock
from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import FakeWorld, RealWorld, World
from tests.fakes.slurm import FakeSlurm
from tests.servers.slurm import SlurmServer, slurm_server

__all__ = ["slurm_server"]


@pytest.fixture(scope="session")
def rest_backend(slurm_server: SlurmServer) -> RestSlurm:
    token = slurm_server.token()
    return RestSlurm(slurm_server.url, "slurm", lambda: token, SystemClock())


@pytest.fixture(params=[pytest.param("rest", marks=pytest.mark.slurm), "fake"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        clock = ManualClock()
        yield FakeWorld(FakeSlurm(clock), clock)
        return
    server: SlurmServer = request.getfixturevalue("slurm_server")
    real = RealWorld(request.getfixturevalue("rest_backend"), server)
    yield real
    real.close()
