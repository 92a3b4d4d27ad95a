"""Prometheus' answer about a threshold -> Signal: evidence when it holds, else only recorded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from remediator.model.faults import THERMAL
from remediator.model.signal import Signal
from remediator.signals.plain import storable
from remediator.signals.samples import Answer

PASSED, DOUBTED = "threshold-passed", "threshold-unknown"
ANSWERS = frozenset({PASSED, DOUBTED})
"""Kinds that are only recorded; their sentence is in the detail `says`."""

AGAIN_S = 120.0
"""What still holds is told again so often: evidence that is not, has passed."""
HOUR_S = 3600.0
_QUERIES = 3
_LONGEST = 300
_PORT = ("device", "port")
_LABELS = 1500  # of JSON: what is kept of an alert must not crowd out what was answered

_WHY = {
    "absent": "there are no samples",
    "shape": "the answer has another form",
    "implausible": "its samples are nothing that can be measured",
    "few": "there are fewer than three samples",
    "stale": "the newest sample is older than a minute",
    "gap": "samples are missing in between",
    "short": "it has not been so for long enough",
    "clock": "the samples are from the future: a clock is wrong",
    "conflict": "those who measure it contradict each other",
    "frozen": "not one reading of this GPU moves",
    "unit": "no GPU works at that, and this one is not slowed down: it may be another unit",
    "limit": "the site's limit is not there, is two, or can be none",
    "siblings": "fewer than three other GPUs of the node are read",
    "identity": "the alert names no GPU or port of one machine, or nobody who measures it",
    "backwards": "the counter went backwards",
    "boot": "no agent of the node's present boot is read there",
    "another": "it may be of the machine that bore this name before",
    "no-answer": "Prometheus does not answer",
    "no-prometheus": "prometheus.url is not set",
}


def to_signal(alert: Signal, boot_id: str, answer: Answer, queries: Sequence[str], now: float) -> Signal:
    """`alert` is the webhook's or the backfill's signal, `boot_id` the node's boot as it answers.

    Heat that holds is of now. A count that holds is what the alert told, by its witness: no more of its time
    or its boot is known.
    """
    holds, is_heat = answer.outcome == "holds", alert.kind in THERMAL
    since = answer.since if is_heat and answer.since is not None else alert.seen_at
    kind = alert.kind if holds else PASSED if answer.outcome == "passed" else DOUBTED
    every = AGAIN_S if holds else HOUR_S
    labels = alert.detail.get("labels", {})
    detail = {
        "says": _says(alert, answer),
        "fault": alert.kind,
        "episode": alert.dedupe,
        "alertname": alert.detail.get("alertname", ""),
        "witness": alert.detail.get("witness", ""),
        "labels": _kept(labels),
        "outcome": answer.outcome,
        "reason": answer.reason,
        "value": answer.value,
        "implausible": answer.implausible,
        "queries": [query[:_LONGEST] for query in queries[-_QUERIES:]],
    }
    return Signal(
        source="condition",
        node=alert.node,
        boot_id=alert.boot_id or (boot_id if is_heat or not holds else ""),
        kind=kind,
        code=None,
        pci=alert.pci,
        seen_at=since if holds else now,
        received_at=now,
        dedupe=f"{alert.dedupe}:{answer.outcome}:{answer.reason}:{int(now // every)}",
        detail=storable(detail),
    )


def _kept(labels: Mapping[str, str]) -> Mapping[str, str]:
    """All labels, or of too many those that tell two ports apart: evidence of one is none of another."""
    if len(json.dumps(labels)) <= _LABELS:
        return labels
    return {name: labels[name] for name in _PORT if len(labels.get(name, "")) <= _LONGEST and name in labels}


def believed(alert: Signal, boot_id: str, now: float) -> Signal:
    """As if Prometheus' samples had said so too, of a time about which nobody can be asked any more."""
    return to_signal(alert, boot_id, Answer("holds", since=alert.seen_at), (), now)


def _says(alert: Signal, answer: Answer) -> str:
    what = f"{alert.kind} on {alert.node}"
    if answer.value is None and answer.outcome == "holds":
        return f"{what}: taken for true, as the alert tells it"
    if answer.outcome == "holds":
        return f"{what}: Prometheus' samples say so too ({answer.value:g})"
    if answer.outcome == "passed":
        return f"{what}: has passed, say Prometheus' samples ({answer.value:g}): recorded"
    why = _WHY.get(answer.reason, answer.reason)
    return f"{what}: nobody knows whether it holds, {why} ({answer.reason}): recorded, asked again"
