"""What Soperator says of a node -> Signals that are recorded and never act. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from remediator.kube.nodes import NodeView
from remediator.model.signal import Signal
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import author, quoted

CONDITION, DRAIN = "soperator-condition", "soperator-drain"
NOTED = frozenset({CONDITION, DRAIN})
"""Kinds that are only recorded; their sentence is in the detail `says`."""


def conditions(views: Iterable[NodeView], now: float) -> list[Signal]:
    """One signal for each of its conditions that is True, the same one until that changes."""
    return [
        _signal(
            CONDITION, view.name, view.boot_id, now, since=report.since,
            dedupe=f"{CONDITION}:{view.uid}:{report.kind}:{report.since}",
            detail={"type": report.kind, "reason": report.reason, "says": f"{view.name}: {report}"},
        )
        for view in views
        for report in view.reports
        if report.is_true
    ]  # fmt: skip


def drains(slurm: Iterable[SlurmNode], views: Mapping[str, NodeView], now: float) -> list[Signal]:
    """One signal for each DRAIN with its words; on which Node the worker is says `instance_id`."""
    found = []
    for node in slurm:
        wrote = author(node.reason)
        if not node.is_drain or wrote is None or wrote.tool != "Soperator":
            continue
        view = views.get(node.instance_id)
        where = view.name if view else f"an unknown node {node.instance_id!r}"
        detail = {"worker": node.name, "reason": node.reason, "flags": sorted(node.flags)}
        detail["says"] = f"{node.name} on {where} is drained with {quoted(node.reason)}"
        boot = view.boot_id if view else ""
        dedupe = f"{DRAIN}:{node.name}:{node.reason_at}:{node.reason[:80]}"
        found.append(_signal(DRAIN, view.name if view else "", boot, now, node.reason_at, dedupe, detail))
    return found


def _signal(
    kind: str, node: str, boot_id: str, now: float, since: float | None, dedupe: str, detail: dict[str, Any]
) -> Signal:
    return Signal(
        source="condition",
        node=node,
        boot_id=boot_id,
        kind=kind,
        seen_at=min(since, now) if since is not None else now,
        received_at=now,
        dedupe=dedupe,
        detail=detail,
    )
