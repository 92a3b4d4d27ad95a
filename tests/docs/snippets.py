"""The code blocks of a page of this repository."""

from __future__ import annotations

import re
from pathlib import Path

REPO = Path(__file__).parents[2]


def snippets(page: str, language: str) -> list[str]:
    """The texts of the page's code blocks in this language, in order."""
    text = (REPO / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
