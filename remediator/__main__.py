"""`python -m remediator` is the same as `remediator`."""

from __future__ import annotations

from remediator.cli.main import app

app(prog_name="remediator")
