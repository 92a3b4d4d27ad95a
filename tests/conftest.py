"""One hypothesis profile for everybody, and one process for everything that needs the lab."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline, because nothing here passes or fails by time.
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")

END_TO_END = Path(__file__).parent / "e2e"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """With several processes (`-n 2 --dist loadgroup`) the lab's tests stay together in one of them."""
    for item in items:
        if END_TO_END in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("lab"))
