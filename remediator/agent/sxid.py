"""SXid lines of NVSwitches: one head line is an event, its `Severity` and `Data` lines are not."""

from __future__ import annotations

import re

from remediator.agent.pci import device
from remediator.model.signal import KernelEvent

PATTERN = re.compile(
    r"nvidia-nvswitch(?P<switch>[0-9]{1,4}): SXid \((?:PCI:)?(?P<dev>[^)]{0,64})\): (?P<sxid>[0-9]{5})\b"
    r"(?:,\s*(?P<rest>.*))?",
    re.DOTALL,
)
_SEVERITY = re.compile(r"(?P<word>Fatal|Non-fatal|Correctable)\b")
# Something must follow the number: "Link 4" may be the beginning of "Link 48".
_LINK = re.compile(r"\bLink (?P<link>[0-9]{1,3})(?=[^0-9])")
_CONTINUATIONS = ("Severity ", "Data {")


def event(match: re.Match[str], raw: str) -> KernelEvent:
    """The event of one SXid line; severity None means that only the catalogue can say."""
    rest = match["rest"] or ""
    pci = device(match["dev"]).pci
    found = {"sxid": int(match["sxid"]), "nvswitch": int(match["switch"])}
    if _is_continuation(rest):
        return KernelEvent(kind="sxid_continuation", pci=pci, extra=found, raw=raw)
    severity, link = _SEVERITY.match(rest), _LINK.search(rest)
    details = {
        "severity": severity["word"].lower() if severity else None,
        "link": int(link["link"]) if link else None,
    }
    return KernelEvent(kind="sxid", pci=pci, extra=found | details, raw=raw)


def _is_continuation(rest: str) -> bool:
    """True also for a cut beginning of a continuation, which must not count as a second event."""
    return bool(rest) and any(rest.startswith(word) or word.startswith(rest) for word in _CONTINUATIONS)
