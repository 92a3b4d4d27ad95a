"""How far a signal can be trusted, and when several together are enough to interrupt jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from remediator.incidents.verdicts import asks_for, successor
from remediator.model.faults import ALERTS, ASKED_AGAIN, COUNTED, FABRIC, OF_RANKS, STRAGGLER, THERMAL
from remediator.model.incident import Incident, Tier
from remediator.model.signal import CONDITION, SILENT, Signal

Witness = Literal[
    "kernel-log",
    "nvml",
    "sysfs",
    "own-counters",
    "samples asked for again",
    "two silences",
    "its job's ranks",
    "trusted condition",
    "dcgm-health",
    "dcgm-xid",
    "dcgm-field",
    "node-exporter",
    "gpud",
    "their kernel-log",
    "their counters",
    "nvidia-smi",
    "none",
]

UNKNOWN_BOOT_S = 600.0
ONE_WITNESS = "one-witness"
"""Reason of a verdict that another witness may still change."""

SILENCE_COUNTS_S = 180.0
THRESHOLD_COUNTS_S = 300.0
RANKS_COUNT_S = 900.0
# The faults of T0 are single moments, seen by all within a sample, a scrape and an evaluation.
AGREE_S: dict[Tier, float] = {"T0": 60.0, "T1": 600.0, "T2": 60.0, "T3": 60.0}

# An alert that does not say what measured it is taken for the weakest.
_BY_LABEL: dict[object, Witness] = {
    "own-counters": "own-counters",
    "dcgm-health": "dcgm-health",
    "dcgm-xid": "dcgm-xid",
    "gpud": "gpud",
}
_COUNTERS: dict[object, Witness] = {
    "own-counters": "own-counters",
    "dcgm-field": "dcgm-field",
    "node-exporter": "node-exporter",
    "gpud": "gpud",
}
_TRUSTED: frozenset[Witness] = frozenset(
    {
        "kernel-log",
        "nvml",
        "sysfs",
        "own-counters",
        "samples asked for again",
        "two silences",
        "its job's ranks",
        "trusted condition",
    }
)
# What the table of conditions says measured one; nobody outside can send a signal of that source.
_BY_TABLE: dict[object, Witness] = {
    "trusted condition": "trusted condition",
    "dcgm-health": "dcgm-health",
    "dcgm-xid": "dcgm-xid",
    "their kernel-log": "their kernel-log",
    "their counters": "their counters",
    "nvidia-smi": "nvidia-smi",
}
# What the agent read from the driver or from sysfs, and not in the log.
_BY_READING: dict[str, Witness] = {
    "gpu-lost": "nvml",
    "gpu-recovery-action": "nvml",
    "gpu-remap-failed": "nvml",
    "gpu-readings-late": "nvml",
    "ib-port-down": "sysfs",
    "hca-gone": "sysfs",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether jobs may be interrupted on this evidence, and the sentence that says why; `followed_by` are
    faults that only came along, and `reason` is one word where too little is known.
    """

    enough: bool
    sentence: str
    followed_by: tuple[Signal, ...] = ()
    reason: str = ""


def witness_of(signal: Signal) -> Witness:
    """What measured the fault. Webhook and backfill carry the same alert: they are no two witnesses."""
    if signal.kind == SILENT:  # nobody can say by himself that he is silent
        return "two silences" if signal.source == "condition" else "none"
    if signal.kind in OF_RANKS:  # nor can a node or an alert compare it with others
        return "its job's ranks" if signal.source == "condition" else "none"
    # no alert of a threshold counts before the service has asked itself
    if signal.kind in THERMAL:
        return "samples asked for again" if signal.source == "condition" else "none"
    if signal.kind in COUNTED and signal.source != "agent":
        told = signal.detail.get("witness") if signal.source == "condition" else None
        return _COUNTERS.get(told, "none")
    if signal.source == "condition":
        return _BY_TABLE.get(signal.detail.get("witness"), "none")
    if signal.source == "agent":
        return _BY_READING.get(signal.kind, "kernel-log")
    if signal.source not in ALERTS or signal.kind not in {"xid", "alert"}:
        return "none"
    said = _BY_LABEL.get(signal.detail.get("witness"), "dcgm-xid")
    # without a code an alert can only support another one, and only if it says that it is about health
    return said if signal.kind == "xid" or said == "dcgm-health" else "none"


def is_asked_first(signal: Signal) -> bool:
    """Whether it says nothing before Prometheus' samples have: heat is nobody's word alone, the rest not an
    alert's; what an agent says of its ports and GPUs' memory it has read itself.
    """
    kinds = ASKED_AGAIN if signal.source in ALERTS else THERMAL
    return signal.kind in kinds and signal.source not in {"condition", "slurm"}


def is_trusted(signal: Signal) -> bool:
    """Whether what measured it may act alone."""
    return witness_of(signal) in _TRUSTED


def of_this_boot(signal: Signal, boot_id: str, now: float) -> bool:
    """Whether it speaks of boot `boot_id` (unknown: never); a signal that does not say counts ten minutes."""
    if signal.boot_id or not boot_id:
        return bool(boot_id) and signal.boot_id == boot_id
    return now - signal.seen_at <= UNKNOWN_BOOT_S


def has_passed(signal: Signal, now: float) -> bool:
    """Whether it told of a silence, a threshold or a straggler that may be over: one that lasts is told again
    every minute, two, or ten.
    """
    ago = now - signal.received_at
    if signal.kind in ASKED_AGAIN and signal.source != "agent":
        return ago > THRESHOLD_COUNTS_S
    if signal.kind == STRAGGLER:
        return ago > RANKS_COUNT_S
    return signal.kind == SILENT and ago > SILENCE_COUNTS_S


def before_close(signal: Signal, closed_at: float | None) -> bool:
    """Whether the episode began before the machine's last incident was closed: it is that incident's past."""
    return closed_at is not None and signal.seen_at < closed_at


def overruled(signal: Signal, past: Iterable[Signal], ended: Incident, boot_id: str) -> bool:
    """Whether a person has decided about this very fault: `past` is the evidence of the machine's last
    incident, which `ended` overridden, and `boot_id` its present boot. A dead GPU goes on complaining: T0
    counts for its boot, the rest for as long as witnesses of one fault may be apart, and a threshold for as
    long as its alert goes on.
    """
    past = list(past)
    episode = signal.detail.get("episode")
    if episode is not None and any(one.detail.get("episode") == episode for one in past):
        return True
    same = any(
        (signal.kind, signal.code) == (one.kind, one.code)
        and same_gpu(signal, one)
        and _same_device(signal, one)
        for one in past
    )
    if ended.tier == "T0":
        return same and boot_id == ended.boot_id
    return same and signal.seen_at <= (ended.closed_at or 0.0) + AGREE_S[ended.tier]


def judge(signal: Signal, others: Sequence[Signal], boot_id: str, tier: Tier, now: float) -> Verdict:
    """One trusted witness is enough, or two of the rest that agree in time, node and fault.

    `others` are signals of the same node in any order; those of another boot or another code count nothing.
    """
    since = successor(signal, others)
    if since is not None:
        return Verdict(False, f"the driver has asked for {asks_for(since)} since: recorded")
    agreeing = [signal, *(other for other in others if _agree(signal, other, AGREE_S[tier]))]
    witnesses = {witness_of(one) for one in agreeing if of_this_boot(one, boot_id, now)} - {"none"}
    names = ", ".join(sorted(witnesses)) or "nobody"
    if witnesses & _TRUSTED:
        return Verdict(True, f"seen by {names}")
    if len(witnesses) > 1:
        return Verdict(True, f"seen by two witnesses: {names}")
    return Verdict(False, f"seen by {names} only: recorded until a second witness agrees", reason=ONE_WITNESS)


def _agree(one: Signal, other: Signal, within: float) -> bool:
    return (
        one.node == other.node
        and abs(one.seen_at - other.seen_at) <= within
        and (_same_fault(one, other) or _speaks_of_health(one, other))
        and same_gpu(one, other)
        and _same_device(one, other)
    )


def _same_fault(one: Signal, other: Signal) -> bool:
    """Lines of several kinds carry one code; without a code only the kind says what the fault is.

    A condition without a code supports the codes that the table names, or another of the same meaning.
    """
    if other.kind == CONDITION and one.code is not None:
        return one.code in other.detail.get("supports", ())
    if other.kind == CONDITION:
        return _meaning(one) is not None and _meaning(one) == _meaning(other)
    return other.code == one.code if one.code is not None else (other.kind, other.code) == (one.kind, None)


def _speaks_of_health(one: Signal, other: Signal) -> bool:
    """DCGM's checks are about GPUs: a port of the fabric is none of theirs."""
    alerts = witness_of(other) == "dcgm-health" and other.kind != CONDITION
    return alerts and not one.kind.startswith(FABRIC)


def _meaning(signal: Signal) -> object:
    said = signal.detail.get("extra")
    return said.get("means") if isinstance(said, dict) else None


def _same_device(one: Signal, other: Signal) -> bool:
    """Two ports are two faults; who names no device may mean any."""
    names = {name for signal in (one, other) if (name := _device(signal))}
    return len(names) < 2


def _device(signal: Signal) -> str:
    said = signal.detail.get("extra") or signal.detail.get("labels")
    return str(said.get("device", "")) if isinstance(said, dict) and signal.kind.startswith(FABRIC) else ""


def same_gpu(one: Signal, other: Signal) -> bool:
    """Whether both may be about one GPU: one that names none may be about any."""
    return one.pci is None or other.pci is None or one.pci == other.pci
