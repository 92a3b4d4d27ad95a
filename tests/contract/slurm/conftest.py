"""The two worlds the contract is checked in: a real Slurm, and the fake in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remediator.clock import ManualClock, SystemClock
from slurm_bridge.either import EitherSlurm
from slurm_bridge.port import SlurmPort
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import FakeWorld, RealWorld, World
from tests.fakes.slurm import FakeSlurm
from tests.servers.slurm import SlurmServer, slurm_server

__all__ = ["slurm_server"]


@pytest.fixture(scope="session")
def rest_backend(slurm_server: SlurmServer) -> RestSlurm:
    token = slurm_server.token()
    return RestSlurm(slurm_server.url, "slurm", lambda: token, SystemClock())


@pytest.fixture(scope="session")
def pyslurm_backend(slurm_server: SlurmServer) -> Iterator[PyslurmSlurm]:
    token = slurm_server.token()
    found = PyslurmSlurm(Channel(slurm_server.pyslurm_worker(), lambda: token, SystemClock(), {}))
    yield found
    found.close()


@pytest.fixture(
    params=[*(pytest.param(name, marks=pytest.mark.slurm) for name in ("rest", "pyslurm")), "fake"]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        clock = ManualClock()
        yield FakeWorld(FakeSlurm(clock), clock)
        return
    server: SlurmServer = request.getfixturevalue("slurm_server")
    port: SlurmPort = request.getfixturevalue("rest_backend")
    if request.param == "pyslurm":  # what it cannot do REST does, and test_pyslurm.py has the table of it
        port = EitherSlurm(request.getfixturevalue("pyslurm_backend"), port, SystemClock())
    real = RealWorld(port, server)
    yield real
    real.close()
