"""What other tools write on nodes -> Signals: each fault once a boot, however often it is written. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from remediator.kube.conditions import Condition
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.signals.plain import shown
from remediator.signals.reporters import Reading, Table

WATCH = "condition-watch"
HOUR_S = 3600.0
LONGEST_QUOTE = 200
_VIRTUAL_LABELS = {"type": "virtual-kubelet", "eks.amazonaws.com/compute-type": "fargate"}
_VIRTUAL_TAINT = "virtual-kubelet.io/"
_WITNESSES = {"kernel-log": "their kernel-log", "nvidia-smi": "nvidia-smi", "counters": "their counters"}


class Fault(NamedTuple):
    """What makes two readings the same one."""

    type: str
    kind: str
    code: int | None
    pci: str | None


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose conditions these are: a node's, or those of a pod on it. `started` is when its kubelet last
    became Ready, or not; None when unknown.
    """

    uid: str
    node: str
    boot_id: str
    started: float | None
    conditions: tuple[Condition, ...]


class Gone(NamedTuple):
    """A fault that is not written any more, and when that was found."""

    signal: Signal
    at: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last look found on a subject: its present faults, those of its boot that have gone, and since
    when each bad condition is bad. `again` faults have come back since the look before.
    """

    faults: dict[Fault, Signal] = field(default_factory=dict)
    past: dict[Fault, Gone] = field(default_factory=dict)
    since: dict[str, float | None] = field(default_factory=dict)
    again: int = 0


def watch_began(now: float) -> Signal:
    """The first look at conditions in the life of a store: what is older is only recorded."""
    return Signal(
        source="condition", node="", boot_id="", kind=WATCH, seen_at=now,
        received_at=now, dedupe=WATCH,
        detail={"says": "conditions of nodes are watched from now on", ONLY_RECORDED: True},
    )  # fmt: skip


def of_node(view: NodeView) -> Subject:
    """A node's own conditions."""
    return Subject(view.uid, view.name, view.boot_id, view.ready_since, view.conditions)


def of_pod(pod: PodView, host: NodeView) -> Subject:
    """Those of a worker pod, which speak of the node it is on."""
    return Subject(pod.uid, host.name, host.boot_id, host.ready_since, pod.slurm)


def is_virtual(view: NodeView) -> bool:
    """Whether there is no machine below: its pods run elsewhere, whatever the node says."""
    labelled = any(view.labels.get(key) == value for key, value in _VIRTUAL_LABELS.items())
    return labelled or any(taint.key.startswith(_VIRTUAL_TAINT) for taint in view.taints)


def see(subject: Subject, before: Seen | None, table: Table, began: float | None, now: float) -> Seen:
    """The faults of a subject now; one that was there before is the very same signal.

    A condition that is Unknown or gone is no recovery: when it comes back its fault is the one that is known.
    `began` is when the watch of this store began, None before that.
    """
    known = before or Seen()
    faults: dict[Fault, Signal] = {}
    since: dict[str, float | None] = {}
    for condition in subject.conditions:
        kind = condition.kind
        if table.state(condition) == "unknown":
            faults |= {fault: one for fault, one in known.faults.items() if fault.type == kind}
            since |= {kind: known.since[kind]} if kind in known.since else {}
        for reading in table.readings(condition):
            fault = Fault(kind, reading.kind, reading.code, reading.pci)
            old = _known(fault, condition, subject, known, now)
            faults[fault] = old or _news(subject, condition, reading, before, began, now)
            since[kind] = condition.since
    gone = {fault: Gone(one, now) for fault, one in known.faults.items() if fault not in faults}
    past = {f: one for f, one in (known.past | gone).items() if one.signal.boot_id == subject.boot_id}
    again = sum(fault in known.past and fault not in known.faults for fault in faults)
    return Seen(faults, past, since, again)


def _known(fault: Fault, condition: Condition, subject: Subject, known: Seen, now: float) -> Signal | None:
    """The signal that told of it already. After a reboot it is news once its reporter has written it anew."""
    old = known.faults.get(fault)
    if old is not None and (old.boot_id == subject.boot_id or known.since.get(fault.type) == condition.since):
        return old
    gone = known.past.get(fault)
    if gone is None or gone.signal.boot_id != subject.boot_id:
        return None
    return gone.signal if fault.code is not None or now - gone.at < HOUR_S else None


def _news(
    subject: Subject,
    condition: Condition,
    reading: Reading,
    before: Seen | None,
    began: float | None,
    now: float,
) -> Signal:
    """A fault that is appended to a bad condition leaves its time of transition as it was."""
    appended = (
        before is not None
        and condition.kind in before.since
        and before.since[condition.kind] == condition.since
    )
    since = now if appended else condition.since
    why = ""
    if began is None or since is None or since < began:
        why = "it was there before anybody watched"
    elif before is None and subject.started is not None and since < subject.started:
        why = "it is older than the node's last start"
    return _recorded(_signal(subject, condition, reading, since, now), why)


def _recorded(signal: Signal, why: str) -> Signal:
    if not why:
        return signal
    detail = signal.detail | {
        "says": f"{signal.detail['says']}; {why}",
        "witness": "none",
        ONLY_RECORDED: True,
    }
    return signal.model_copy(update={"detail": detail})


def _signal(
    subject: Subject, condition: Condition, reading: Reading, seen_at: float | None, now: float
) -> Signal:
    row, at = reading.row, min(seen_at, now) if seen_at is not None else now
    parts = [subject.uid, subject.boot_id, condition.kind, reading.kind, reading.code, reading.pci]
    parts += [] if reading.code is not None else [row.means, int(at // HOUR_S)]
    text = " ".join(f"{condition.reason}: {condition.message}".split())[:LONGEST_QUOTE]
    detail: dict[str, Any] = {
        "says": shown(f"{row.reporter} says of {subject.node}: {condition.kind} {condition.status} ({text})"),
        "type": condition.kind,
        "reason": shown(condition.reason),
        "message": shown(condition.message[:LONGEST_QUOTE]),
        "witness": _witness(reading),
        "extra": {"means": row.means, "reporter": row.reporter, "reads": row.reads},
    }
    if reading.code is None:
        detail["supports"] = list(row.supports)
    if row.tier == "record" and reading.code is None:
        detail[ONLY_RECORDED] = True
    return Signal(
        source="condition", node=subject.node, boot_id=subject.boot_id, kind=reading.kind, code=reading.code,
        pci=reading.pci, seen_at=at, received_at=now, detail=detail,
        dedupe="condition:" + ":".join("" if part is None else str(part) for part in parts),
    )  # fmt: skip


def _witness(reading: Reading) -> str:
    """What measured it, as the evidence counts it: another tool on DCGM is no second witness beside DCGM."""
    row = reading.row
    if row.tier == "record" and reading.code is None:
        return "none"
    if row.alone == "yes":
        return "trusted condition"
    if row.reads == "dcgm":
        return "dcgm-health" if reading.code is None else "dcgm-xid"
    return _WITNESSES.get(row.reads, "none")
