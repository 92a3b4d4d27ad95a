"""NVLink 5 details of XID 144-150: unit, severity word, containment, link and the error words."""

from __future__ import annotations

import re
from typing import Any

CODES = range(144, 151)

_HEAD = re.compile(
    r"(?:^|[\s,])(?P<unit>[A-Z][A-Z0-9_/]{2,40})\s+(?P<severity>Nonfatal|Fatal)\s+(?P<xc>XC[0-9])\s+i[0-9]\s+"
    r"Link (?P<link>-?[0-9]{1,3})\s*\("
)
# Exactly eight digits: a word that was cut would give another sub-code.
_WORDS = re.compile(r"\s*(?P<intr>0x[0-9a-fA-F]{8})\b(?:\s+(?P<status>0x[0-9a-fA-F]{8})\b)?")


def decode(rest: str) -> dict[str, Any]:
    """What stands behind the code of an NVLink 5 line; words that are cut are left out."""
    head = _HEAD.search(rest)
    if head is None:
        return {}
    found: dict[str, Any] = {
        "unit": head["unit"],
        "fatal": head["severity"] == "Fatal",
        "containment": head["xc"],
        "link": int(head["link"]),
    }
    words = _WORDS.match(rest, head.end())
    return found | _words(words) if words else found


def _words(match: re.Match[str]) -> dict[str, Any]:
    """IntrInfo, its sub-code (bits 25:20 in both layouts) and the error status when it is whole."""
    intr = match["intr"]
    found: dict[str, Any] = {"intr_info": intr, "sub_code": (int(intr, 16) >> 20) & 0x3F}
    return found | {"error_status": match["status"]} if match["status"] else found
