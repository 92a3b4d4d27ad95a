"""One hypothesis profile for everybody: no deadline, because nothing here passes or fails by time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
