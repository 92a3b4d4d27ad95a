"""How tables and sentences are printed."""

from __future__ import annotations

import os
import sys

from rich.console import Console

PIPED = 140


def screen() -> Console:
    """A console without markup: sentences quote what others wrote, a Slurm reason with brackets for one.

    A pipe (kubectl exec without -t) has no width: tables are wide there unless COLUMNS says how wide.
    """
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED
    return Console(markup=False, emoji=False, highlight=False, width=width)


def span(seconds: float) -> str:
    """A time as people say it: 0.10 s, 12 min 05 s, 3 h 07 min."""
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
