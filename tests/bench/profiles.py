"""The top costs of a cProfile run in a few words."""

from __future__ import annotations

import cProfile
import re
from pathlib import Path
from typing import Any

MOST = 3
_METHOD = re.compile(r"<method '(\w+)' of '([\w.]+)' objects>")


def top_costs(profile: cProfile.Profile) -> str:
    """The three functions that most time was spent in themselves, with their shares."""
    entries: list[Any] = profile.getstats()
    whole = sum(entry.inlinetime for entry in entries)
    entries.sort(key=lambda entry: -float(entry.inlinetime))
    return ", ".join(
        f"{_name(entry.code)} {100 * entry.inlinetime / whole:.0f} %" for entry in entries[:MOST]
    )


def _name(code: Any) -> str:
    if isinstance(code, str):
        method = _METHOD.fullmatch(code)
        return f"{method[2].rpartition('.')[2]}.{method[1]}" if method else code.strip("<>")
    return f"{Path(code.co_filename).stem}.{code.co_name}"
