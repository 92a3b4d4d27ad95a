"""Asks Prometheus what the links and GPUs of a job's nodes did, under the names the exporters give it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from remediator.model.track import Track
from remediator.signals.inquiry import Ask
from remediator.signals.plain import shown
from remediator.signals.samples import Series, read_series

NEW_S = 60.0  # a code's counter that appears so long after its agent did counts from 0
_LONGEST = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\[\]-]{0,252}")
_ACTIVE = 4.0
_ABOUT_AGENT = frozenset({"__name__", "node", "boot_id", "xid", "sxid", "pci"})
_CODES = {"xid": "XID", "sxid": "SXid"}

_APPLICATION = ((8, 8), (11, 11), (13, 13), (25, 25), (31, 32), (37, 45), (60, 60), (66, 72), (75, 77),
                (80, 80), (82, 86), (88, 89), (92, 93), (96, 109), (121, 121), (126, 135), (137, 137),
                (139, 139), (141, 141))  # fmt: skip
"""XIDs that a program can cause or that only follow its end: T2 has strikes for these."""


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A series' kind of reading, how its place is called, and a label with the value it must have."""

    what: str
    place: str
    only: tuple[str, str] = ("", "")


_GPU, _PORT, _LINK = "GPU {gpu}", "port {device}/{port}", "NVLink {link} of GPU {gpu}"
_VOLATILE = ("lifetime", "volatile")

AGENT = {
    "remediator_ib_up": _Spelling("port-up", _PORT),
    "remediator_ib_link_downed_total": _Spelling("link-downed", _PORT),
    "remediator_ib_link_recoveries_total": _Spelling("link-recovery", _PORT),
    "remediator_ib_symbol_errors_total": _Spelling("symbol-errors", _PORT),
    "remediator_ib_wait_ticks_total": _Spelling("waits", _PORT),
    "remediator_nvlink_up": _Spelling("nvlink-up", _LINK),
    "remediator_nvlink_errors_total": _Spelling("nvlink-recovery", _LINK, ("kind", "recovery")),
    "remediator_gpu_lost": _Spelling("gpu-lost", _GPU),
    "remediator_gpu_temperature_celsius": _Spelling("gpu-reads", _GPU),
    "remediator_gpu_ecc_errors_total": _Spelling("ecc", _GPU, _VOLATILE),
    "remediator_gpu_remapped_rows": _Spelling("remapped", _GPU, ("cause", "uncorrectable")),
    "remediator_gpu_row_remap_pending": _Spelling("remap-pending", _GPU),
    "remediator_gpu_row_remap_failed": _Spelling("remap-failed", _GPU),
    "remediator_gpu_slowdown": _Spelling("slowdown", _GPU, ("reason", "hardware")),
    "remediator_agent_xid_total": _Spelling("xid", "XID {xid} on {pci}"),
    "remediator_agent_sxid_total": _Spelling("sxid", "SXid {sxid} on {pci}"),
}
DCGM = {
    "DCGM_FI_DEV_GPU_TEMP": _Spelling("gpu-reads", _GPU),
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": _Spelling("gpu-reads", _GPU),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _Spelling("ecc", _GPU),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _Spelling("remapped", _GPU),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": _Spelling("remap-pending", _GPU),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": _Spelling("remap-failed", _GPU),
    "DCGM_FI_DEV_ROW_REMAP_FAILED": _Spelling("remap-failed", _GPU),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": _Spelling("nvlink-recovery", _GPU),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL": _Spelling("nvlink-recovery", _GPU),
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS": _Spelling("nvlink-recovery", _GPU),
    "DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL": _Spelling("nvlink-recovery", _GPU),
}
NODE_EXPORTER = {
    "node_infiniband_state_id": _Spelling("port-up", _PORT),
    "node_infiniband_link_downed_total": _Spelling("link-downed", _PORT),
    "node_infiniband_link_error_recovery_total": _Spelling("link-recovery", _PORT),
    "node_infiniband_symbol_error_total": _Spelling("symbol-errors", _PORT),
}


def readings(ask: Ask, nodes: Sequence[str], at: float, reach: float) -> list[Track]:
    """Of these nodes, `reach` seconds back from second `at`; Retry for no answer, BadInput for another form.

    A node with a name that no query can carry is not asked for.
    """
    names = [node for node in nodes if _NAME.fullmatch(node)]
    if not names:
        return []
    tracks = _of_agents(ask, names, at, reach)
    others = (
        ("dcgm", "Hostname", DCGM),
        ("dcgm", "hostname", DCGM),
        ("node-exporter", "node", NODE_EXPORTER),
    )
    for teller, label, table in others:
        for one in _fetch(ask, _selector(table, label, names), at, reach):
            tracks += _tracks(one, table, one.labels.get(label, ""), teller)
    return tracks


def _of_agents(ask: Ask, names: Sequence[str], at: float, reach: float) -> list[Track]:
    about = _fetch(ask, _selector(["remediator_agent_info"], "node", names), at, reach)
    nodes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in about:
        nodes[_target(one.labels)].add(one.labels.get("node", ""))
    # an address that was two nodes' says nothing about either
    known = {target: who.pop() for target, who in nodes.items() if len(who) == 1 and all(target)}
    instances = sorted({instance for _, instance in known if _NAME.fullmatch(instance)})
    if not instances:
        return []
    alive = _alive(one for one in about if _target(one.labels) in known)
    tracks = [
        Track(known[_target(one.labels)], what, f"{name}s", tuple((when, 0.0) for when, _ in one.samples))
        for one in about
        if _target(one.labels) in known
        for what, name in _CODES.items()
    ]
    for one in _fetch(ask, _selector(AGENT, "instance", instances), at, reach):
        node = known.get(_target(one.labels))
        if node is not None:
            tracks += _tracks(_from_zero(one, alive), AGENT, node, "agent")
    return tracks


def _alive(about: Iterable[Series]) -> Mapping[frozenset[tuple[str, str]], list[float]]:
    found: dict[frozenset[tuple[str, str]], list[float]] = defaultdict(list)
    for one in about:
        found[_scraped(one.labels)] += [at for at, _ in one.samples]
    return found


def _from_zero(one: Series, alive: Mapping[frozenset[tuple[str, str]], list[float]]) -> Series:
    """The counter of a code is there from its first line on: before that it was 0, if its agent was there."""
    spelling = AGENT.get(one.labels.get("__name__", ""))
    if spelling is None or spelling.what not in _CODES or not one.samples:
        return one
    began = one.samples[0][0]
    before = [at for at in alive.get(_scraped(one.labels), []) if at <= began - 1]
    if not before or min(before) > began - NEW_S:
        return one
    return Series(one.labels, ((max(before), 0.0), *one.samples))


def _tracks(one: Series, table: Mapping[str, _Spelling], node: str, teller: str) -> Iterator[Track]:
    name = one.labels.get("__name__", "")
    spelling = table.get(name)
    if spelling is None or (spelling.only[0] and one.labels.get(spelling.only[0]) != spelling.only[1]):
        return
    if spelling.what == "xid" and not _is_hardware(one.labels.get("xid", "")):
        return
    place = spelling.place.format_map(defaultdict(lambda: "?", _short(one.labels)))
    samples = one.samples
    if name == "node_infiniband_state_id":
        samples = tuple((at, float(value == _ACTIVE)) for at, value in samples)
    yield Track(node, spelling.what, place, samples, teller)


def _is_hardware(code: str) -> bool:
    if not (code.isascii() and code.isdigit() and len(code) < _LONGEST):
        return False
    return not any(low <= int(code) <= high for low, high in _APPLICATION)


def _short(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: str(shown(text))[:_LONGEST] for name, text in labels.items()}


def _target(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _scraped(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Whose scrape of which agent."""
    return frozenset((name, text) for name, text in labels.items() if name not in _ABOUT_AGENT)


def _selector(metrics: Iterable[str], label: str, values: Iterable[str]) -> str:
    wanted = json.dumps("|".join(re.escape(value) for value in values))
    return f'{{__name__=~"{"|".join(metrics)}",{label}=~{wanted}}}'


def _fetch(ask: Ask, selector: str, at: float, reach: float) -> list[Series]:
    return read_series(ask(f"{selector}[{reach:.0f}s]", at))
