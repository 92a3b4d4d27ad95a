"""When the jobs of a machine are moved that is drained and fenced at once."""

from __future__ import annotations

from typing import Literal

Timing = Literal["now", "at-checkpoint", "at-job-end"]
"""At once; when a complete checkpoint newer than the decision is there; when they end by themselves."""
