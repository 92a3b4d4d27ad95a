"""Slurm nodes that somebody else has drained -> Signals: each drain once, by its words and its time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from remediator.kube.nodes import NodeView
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.signals.plain import shown
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import Author, drained_by

DRAIN, DRAIN_OVER, WATCH = "slurm-drain", "slurm-drain-over", "drain-watch"
OURS = "remediator: "
EVIDENCE = frozenset({"node-check", "gres-count", "kill-failed", "prolog-failed", "epilog-failed"})
"""What a drain can mean that speaks of the machine; the policy says what is done about each."""

LONGEST = 200


def watch_began(now: float) -> Signal:
    """The first look at drains in the life of a store: older ones are only recorded."""
    detail = {"says": "drains in Slurm are watched from now on", ONLY_RECORDED: True}
    return _signal(WATCH, None, now, now, WATCH, detail)


def drains(
    slurm: Iterable[SlurmNode], homes: Mapping[str, NodeView], began: float | None, now: float
) -> dict[str, Signal]:
    """By worker, the drain that somebody else has set there; a machine that is switched off has none.

    `homes` are the nodes of a pool that workers are on; a worker on none of them is nobody's business here.
    """
    return {
        node.name: _drain(node, homes[node.name], began, now)
        for node in slurm
        if node.name in homes and is_out(node) and not node.is_powering and not node.reason.startswith(OURS)
    }


def over(drain: Signal, now: float) -> Signal:
    """The drain is gone, and so is what it said; whoever lifted it has decided about the node."""
    worker, by = drain.detail["worker"], drain.detail["by"]
    says = f"the drain of {worker} ({drain.detail['reason']!r}{by}) is over"
    detail = {"says": says, "worker": worker, "drain": drain.dedupe}
    return Signal(
        source="slurm", node=drain.node, boot_id="", kind=DRAIN_OVER, seen_at=now,
        received_at=now, dedupe=f"over:{drain.dedupe}", detail=detail,
    )  # fmt: skip


def is_out(node: SlurmNode) -> bool:
    """Whether no job may start there."""
    return node.is_drain or node.is_down or "FAIL" in node.flags


def _drain(node: SlurmNode, home: NodeView, began: float | None, now: float) -> Signal:
    found = drained_by(node.reason)
    reason = shown(node.reason[:LONGEST])
    by = f" by {shown(node.reason_user)}" if node.reason_user else ""
    says = f"{node.name} on {home.name} is drained{by}: {reason!r} ({found.tool}: {found.says})"
    why = _only_recorded(node, found, began)
    detail: dict[str, Any] = {
        "says": f"{says}; {why}" if why else says,
        "worker": node.name,
        "reason": reason,
        "by": by,
        "extra": {"means": found.means, "author": found.tool},
    }
    if why:
        detail[ONLY_RECORDED] = True
    at = node.reason_at if node.reason_at is not None else now
    dedupe = f"{DRAIN}:{node.name}:{node.reason_at}:{reason}"
    return _signal(DRAIN, home, min(at, now), now, dedupe, detail)


def _only_recorded(node: SlurmNode, found: Author, began: float | None) -> str:
    """Why it is no evidence against the machine; empty when it is."""
    at = node.reason_at
    if began is None or at is None or at < began:
        return "it was there before anybody watched"
    if found.means not in EVIDENCE:
        return "text and state stay"
    if node.boot_time is not None and at < node.boot_time:
        return "it is older than the machine's last start"
    if "MAINTENANCE" in node.flags:
        return "it is under planned maintenance"
    return ""


def _signal(
    kind: str, home: NodeView | None, seen_at: float, now: float, dedupe: str, detail: dict[str, Any]
) -> Signal:
    return Signal(
        source="slurm",
        node=home.name if home else "",
        boot_id=home.boot_id if home else "",
        kind=kind,
        seen_at=seen_at,
        received_at=now,
        dedupe=dedupe,
        detail=detail,
    )
