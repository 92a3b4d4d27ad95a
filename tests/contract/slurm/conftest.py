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
from tests.servers.slurm import SlurmServer, serve, slurm_server

__all__ = ["slurm_server"]


def rest_of(server: SlurmServer) -> RestSlurm:
    token = server.token()
    return RestSlurm(server.url, "slurm", lambda: token, SystemClock())


@pytest.fixture(scope="session")
def rest_backend(slurm_server: SlurmServer) -> RestSlurm:
    return rest_of(slurm_server)


@pytest.fixture(scope="session")
def pyslurm_backend(slurm_server: SlurmServer) -> Iterator[PyslurmSlurm]:
    token = slurm_server.token()
    found = PyslurmSlurm(Channel(slurm_server.pyslurm_socket(), lambda: token, SystemClock()))
    yield found
    found.close()


@pytest.fixture(scope="session")
def slinky_server() -> Iterator[SlurmServer]:
    """A Slurm with the values that Slinky renders: a longer grace, and jobs that are soon forgotten."""
    yield from serve(kill_wait=30, min_job_age=2)


@pytest.fixture(
    params=[
        pytest.param("rest", marks=pytest.mark.slurm),
        # Three minutes each; what is pyslurm's own, test_pyslurm.py, runs every time.
        *(pytest.param(name, marks=(pytest.mark.slurm, pytest.mark.slow)) for name in ("pyslurm", "slinky")),
        "fake",
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        clock = ManualClock()
        yield FakeWorld(FakeSlurm(clock), clock)
        return
    server: SlurmServer = request.getfixturevalue(
        "slinky_server" if request.param == "slinky" else "slurm_server"
    )
    port: SlurmPort = (
        rest_of(server) if request.param == "slinky" else request.getfixturevalue("rest_backend")
    )
    if request.param == "pyslurm":  # what it cannot do REST does, and test_pyslurm.py has the table of it
        port = EitherSlurm(request.getfixturevalue("pyslurm_backend"), port, SystemClock())
    real = RealWorld(port, server)
    yield real
    real.close()
