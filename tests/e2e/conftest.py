"""One lab for all tests that need one: brought up once, entered, taken down at the end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.api import Lab
from deploy.lab.layout import Layout

KILL_WAIT = 6
"""Seconds of grace in these tests; the demo and the grace tests use 120."""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A running lab with the service in it."""
    take_down_orphans()
    found = Lab(f"test-{os.getpid()}")
    # A node is mended long before its alert ends, which would be a second fault to the next test.
    found.up(kill_wait=KILL_WAIT, gpu_alerts=False)
    try:
        yield found
    finally:
        found.down()


@pytest.fixture(autouse=True)
def inside(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of the lab is in its network, where 10.99.0.1 answers; the tests after it are not."""
    if "lab" not in request.fixturenames:
        yield
        return
    with request.getfixturevalue("lab").visit_network():
        yield


def take_down_orphans() -> None:
    """Labs of test runs that were killed, and the logs of those that ended."""
    for folder in Layout.of("any").root.parent.glob("*-*"):
        made_by = re.fullmatch(r"(?:test|second|alerts|nodesets)-(\d+)", folder.name)
        if made_by and not Path(f"/proc/{made_by[1]}").exists():
            Lab(folder.name).down(keep_logs=False)
