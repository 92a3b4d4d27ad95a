"""The top costs of a cProfile run in a few words."""

from __future__ import annotations

import cProfile
import re
from collections import Counter
from pathlib import Path
from typing import Any

MOST = 3
_METHOD = re.compile(r"<method '(\w+)' of '([\w.]+)' objects>")
_LIBRARY = re.compile(r"/site-packages/(\w+)")


def top_costs(profile: cProfile.Profile) -> str:
    """Where most time was spent, with shares: SQLite's calls, libraries as a whole, our modules."""
    spent: Counter[str] = Counter()
    entries: list[Any] = profile.getstats()
    for entry in entries:
        spent[_group(entry.code)] += entry.inlinetime
    whole = sum(spent.values())
    return ", ".join(f"{name} {100 * seconds / whole:.0f} %" for name, seconds in spent.most_common(MOST))


def _group(code: Any) -> str:
    if isinstance(code, str):
        return _builtin(code)
    library = _LIBRARY.search(code.co_filename)
    if library:
        return library[1]
    folder = Path(code.co_filename)
    return f"{folder.parent.name}/{folder.stem}"


def _builtin(text: str) -> str:
    """SQLite's methods by name, pydantic's core as pydantic, all other built-ins together."""
    method = _METHOD.fullmatch(text)
    if method and method[2].startswith("sqlite3."):
        return f"sqlite {method[1]}"
    return "pydantic" if "pydantic" in text else "interpreter"
