"""One lab for all drills, its controller under a keeper; what was measured is printed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.api import Lab
from tests.e2e import conftest as end_to_end
from tests.e2e import saver
from tests.sigkill.drill import keep

pytest.register_assert_rewrite("tests.sigkill.plays")
inside = end_to_end.inside  # every drill is in the lab's network
FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A running lab whose jobs have two minutes to save."""
    end_to_end.take_down_orphans()
    found = Lab(f"test-{os.getpid()}")
    found.up(gpu_alerts=False)
    try:
        with found.visit_network():
            keep(found)
        shutil.copy(Path(str(saver.__file__)), found.layout.shared)
        yield found
    finally:
        found.down()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the end of the run."""
    return request.config.stash.setdefault(FIGURES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was measured."""
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)
