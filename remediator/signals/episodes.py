"""Alert -> Signal: which node, which fault, which episode; the same by webhook and by backfill."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from remediator.model.faults import NAMED
from remediator.model.signal import Signal
from remediator.settings import Webhook
from remediator.signals.alertmanager import Alert
from remediator.signals.plain import BOOT_ID, bus, shown, small, storable

RESOLVED = "alert-resolved"
REFUSED = "alert-refused"
LONGEST_NAME = 200
HOUR_S = 3600

Door = Literal["webhook", "backfill"]

_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PORT = re.compile(r":[0-9]{1,5}$")
_CODE = re.compile(r"[0-9]{1,10}", re.ASCII)
_PCI_LABELS = ("pci", "pci_bus_id")


@dataclass
class Converted:
    """What came of some alerts: `ignored` name no node, `refused` counts reasons."""

    signals: list[Signal] = field(default_factory=list)
    ignored: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def taken(self) -> int:
        """How many alerts became signals."""
        return sum(signal.kind != REFUSED for signal in self.signals)


class _Unfit(Exception):
    """The alert speaks of us and cannot be used; the text is the reason."""


def convert(alerts: Iterable[Alert | None], names: Webhook, door: Door, now: float) -> Converted:
    """Signals of all alerts that name a node; refusals are one row per reason, door and hour."""
    found = Converted()
    for alert in alerts:
        try:
            signal = _signal(alert, names, door, now)
        except _Unfit as error:
            found.refused[str(error)] += 1
            continue
        if signal is None:
            found.ignored += 1
        else:
            found.signals.append(signal)
    found.signals += [_refusal(reason, door, now) for reason in found.refused]
    return found


def episode(alert: Alert, names: Webhook) -> str:
    """What makes two deliveries the same: the labels without those of replicas, and the second it began."""
    kept = sorted((name, value) for name, value in alert.labels.items() if name not in names.replica_labels)
    digest = hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:32]
    return f"alert:{digest}:{int(alert.began)}"


def _signal(alert: Alert | None, names: Webhook, door: Door, now: float) -> Signal | None:
    if alert is None:
        raise _Unfit("shape")
    node, code = _node(alert.labels, names), _code(alert.labels, names)
    kind = _kind(alert.labels, names, code)
    if not node:
        if kind != "alert":
            raise _Unfit("no-node")
        return None
    key = episode(alert, names)
    boot = alert.labels.get(names.boot_label, "")
    return Signal(
        source=door,
        node=node,
        boot_id=boot if BOOT_ID.fullmatch(boot) else "",
        kind=kind if alert.firing else RESOLVED,
        code=code,
        pci=_pci(alert.labels),
        seen_at=alert.began,
        received_at=now,
        dedupe=key if alert.firing else f"{key}:resolved",
        detail={
            "alertname": shown(alert.labels.get("alertname", "")[:LONGEST_NAME]),
            "witness": shown(alert.labels.get(names.witness_label, "")[:LONGEST_NAME]),
            "labels": storable(dict(alert.labels)),
        },
    )


def _node(labels: Mapping[str, str], names: Webhook) -> str:
    """What the first present label gives; it is looked up exactly later, so a list or range is refused."""
    label = _first(labels, names.node_labels)
    value = labels.get(label, "")
    if label == "instance":
        value = _PORT.sub("", value)
    if value and not _NODE.fullmatch(value):
        raise _Unfit("node")
    return value


def _code(labels: Mapping[str, str], names: Webhook) -> int | None:
    value = labels.get(_first(labels, names.code_labels), "")
    # 0 is how DCGM says that there was none
    return (small(int(value)) or None) if _CODE.fullmatch(value) else None


def _kind(labels: Mapping[str, str], names: Webhook, code: int | None) -> str:
    """A code says more than the name of a fault; a name that nobody knows may be a typing error."""
    fault = labels.get(names.fault_label, "")
    if code is not None or not fault:
        return "alert" if code is None else "xid"
    if fault not in NAMED:
        raise _Unfit("fault")
    return fault


def _pci(labels: Mapping[str, str]) -> str | None:
    return bus(labels.get(_first(labels, _PCI_LABELS), ""))


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((name for name in names if labels.get(name)), "")


def _refusal(reason: str, door: Door, now: float) -> Signal:
    return Signal(
        source=door,
        node="",
        boot_id="",
        kind=REFUSED,
        seen_at=now,
        received_at=now,
        dedupe=f"refused:{door}:{reason}:{int(now // HOUR_S)}",
        detail={"reason": reason},
    )
