"""Parser of kernel-log lines: XID, SXid, a GPU off the bus, fabric lines. Pure, and never raises.

The earliest event in a line wins, so what follows it (an interleaved second line, a cut tail)
can take details away but never changes a code that was printed whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from remediator.agent import nvlink5, sxid
from remediator.agent.pci import ANY_DEVICE, device
from remediator.model.signal import MAX_RAW, KernelEvent

# One printk record is at most 8 KiB; what lies beyond can only be somebody's garbage.
MAX_LINE = 16 * 1024

_CONTROL = dict.fromkeys((*range(9), *range(11, 32), 127, *range(55296, 57344)), "�")
_SERIAL = re.compile(r"(Board Serial Number:?\s*)[^\s,;]+", re.IGNORECASE)

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<dev>[^)]{0,64})\): (?P<xid>[0-9]{1,9})\b(?P<rest>.*)", re.DOTALL)
# Not over a UUID or a second message: a map line is no fault, whatever is printed behind it.
_FELL = re.compile(
    r"NVRM: (?P<head>(?:(?:The NVIDIA )?GPU\b(?:(?!GPU-|NVRM: Xid ).){0,160}?)?)\bfallen off the bus",
    re.DOTALL,
)
_MAP = re.compile(
    rf"NVRM: GPU at (?:PCI:)?{ANY_DEVICE}: (?P<uuid>GPU-[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4,12}}){{4}})"
)
_GSP = re.compile(rf"NVRM: Rate limiting GSP RPC error prints for GPU at (?:PCI:)?{ANY_DEVICE}")
_CARRIER = re.compile(r"\b(?P<iface>ib[0-9a-zA-Z_.-]{1,13}): lost carrier\b")
_NIC = re.compile(
    r"\bmlx[0-9]_[a-z_]+:[^\n]{0,80}?Port module event\b|\bmlx[0-9]_core [^\n]{0,80}?Port module event\b"
)

_PID = re.compile(r",\s*pid=(?:'<unknown>'|<unknown>|(?P<pid>[0-9]{1,10}))(?=,|\s|$)")
_NAME = re.compile(r",\s*name=(?:<unknown>|(?P<name>[^,]*))(?=,|$)")
_UNIT = re.compile(r"\(GPC (?P<gpc>[0-9]{1,3}), TPC (?P<tpc>[0-9]{1,3}), SM (?P<sm>[0-9]{1,3})\)")
_RESET = re.compile(r"(?<!D-)\bRST: (?P<rst>Yes|No)\b(?:, D-RST: (?P<drain>Yes|No)\b)?")
_CAUSE = re.compile(r"caused by previous Xid (?P<xid>[0-9]{1,9})\b")
_VERDICT = re.compile(r"changed from 0x(?P<old>[0-9a-fA-F]{1,8}) \([^)]*\) to 0x(?P<new>[0-9a-fA-F]{1,8}) \(")
_LINK = re.compile(r"on link (?P<link>[0-9]{1,3}) ?\((?P<regs>[^)]{0,400})(?P<end>\)?)")
_REGISTER = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NVLINK_REGISTERS = 7
# The kernel cuts a process name at 15 bytes; a longer one is a line that ran into another.
_NAME_CHARACTERS = 64


class _Process(NamedTuple):
    pid: int | None
    name: str | None


def parse(line: str) -> KernelEvent | None:
    """The first event in `line` (any prefix, cut or interleaved), or None when there is none."""
    text = line[:MAX_LINE].translate(_CONTROL)
    found = [
        (match.start(), order, match)
        for order, (pattern, _) in enumerate(_SHAPES)
        if (match := pattern.search(text))
    ]
    if not found:
        return None
    _, order, match = min(found, key=lambda entry: entry[:2])
    return _SHAPES[order][1](match, scrub(text))


def scrub(text: str) -> str:
    """`text` without board serial numbers and no longer than MAX_RAW characters."""
    return _SERIAL.sub(r"\1[scrubbed]", text)[:MAX_RAW]


def _xid_event(match: re.Match[str], raw: str) -> KernelEvent:
    """An XID line; a device that cannot be read leaves `pci` empty and keeps the event."""
    xid, rest = int(match["xid"]), match["rest"]
    place = device(match["dev"])
    owner = _process(rest)
    extra: dict[str, Any] = {**place.instances, **_details(xid, rest)}
    return KernelEvent(
        kind="xid", xid=xid, pci=place.pci, pid=owner.pid, process=owner.name, extra=extra, raw=raw
    )


def _process(rest: str) -> _Process:
    """Pid and name right after the code, each optional; the name only ever follows a pid."""
    pid = _PID.match(rest)
    if pid is None:
        return _Process(None, None)
    name = _NAME.match(rest, pid.end())
    return _Process(
        int(pid["pid"]) if pid["pid"] else None,
        (name["name"] or "")[:_NAME_CHARACTERS] or None if name else None,
    )


def _details(xid: int, rest: str) -> dict[str, Any]:
    """What the message says beyond the code; only what is whole."""
    found: dict[str, Any] = {}
    if match := _UNIT.search(rest):
        found |= {name: int(value) for name, value in match.groupdict().items()}
    if match := _RESET.search(rest):
        found |= _reset_flags(match)
    if match := _CAUSE.search(rest):
        found["caused_by_xid"] = int(match["xid"])
    special = _BY_CODE.get(xid)
    return found | special(rest) if special else found


def _reset_flags(match: re.Match[str]) -> dict[str, Any]:
    flags = {"reset_required": match["rst"] == "Yes"}
    return flags | {"drain_reset": match["drain"] == "Yes"} if match["drain"] else flags


def _verdict(rest: str) -> dict[str, Any]:
    """XID 154: the driver's recovery action before and after; None is an unknown verdict."""
    match = _VERDICT.search(rest)
    old, new = (int(match["old"], 16), int(match["new"], 16)) if match else (None, None)
    return {"recovery_from": old, "recovery_to": new}


def _nvlink_registers(rest: str) -> dict[str, Any]:
    """XID 74: the link and its error registers; fewer than seven, or no closing bracket, is incomplete."""
    match = _LINK.search(rest)
    if match is None:
        return {}
    registers = _REGISTER.findall(match["regs"])
    whole = len(registers) >= _NVLINK_REGISTERS and bool(match["end"])
    return {"link": int(match["link"]), "registers": registers, "registers_complete": whole}


def _fell_event(match: re.Match[str], raw: str) -> KernelEvent:
    """The forms without an XID become a synthetic 79; without a device it speaks of the node."""
    named = re.search(ANY_DEVICE, match["head"])
    pci = device(named["dev"]).pci if named else None
    return KernelEvent(kind="fallen_off_bus", xid=79, pci=pci, extra={"synthetic": True}, raw=raw)


def _map_event(match: re.Match[str], raw: str) -> KernelEvent:
    return KernelEvent(kind="gpu_map", pci=device(match["dev"]).pci, extra={"uuid": match["uuid"]}, raw=raw)


def _gsp_event(match: re.Match[str], raw: str) -> KernelEvent:
    return KernelEvent(kind="gsp_rate_limit", pci=device(match["dev"]).pci, raw=raw)


def _carrier_event(match: re.Match[str], raw: str) -> KernelEvent:
    return KernelEvent(kind="ib_lost_carrier", extra={"iface": match["iface"]}, raw=raw)


def _nic_event(_match: re.Match[str], raw: str) -> KernelEvent:
    return KernelEvent(kind="nic_event", raw=raw)


_BY_CODE: dict[int, Callable[[str], dict[str, Any]]] = {
    74: _nvlink_registers,
    **dict.fromkeys(nvlink5.CODES, nvlink5.decode),
    154: _verdict,
}
_SHAPES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], KernelEvent]], ...] = (
    (_XID, _xid_event),
    (_FELL, _fell_event),
    (sxid.PATTERN, sxid.event),
    (_MAP, _map_event),
    (_GSP, _gsp_event),
    (_CARRIER, _carrier_event),
    (_NIC, _nic_event),
)
