"""One hypothesis profile for everybody, and one process for everything that needs the lab."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# No deadline, because nothing here passes or fails by time.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")


class LabTogether(LoadScopeScheduling):  # type: ignore[misc]  # the plugin carries no types
    """The lab's tests are one piece of work, the largest and so the first; each other test is its own."""

    def _split_scope(self, nodeid: str) -> str:
        return "lab" if nodeid.startswith("tests/e2e/") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LabTogether:
    """What `-n 2` asks for the order: the plugin's own groups have no effect in this pytest."""
    return LabTogether(config, log)
