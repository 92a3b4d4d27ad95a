"""What forbids cordon, eviction, detaching and replacing a node: labels by value, protected pods, and work
somebody has planned on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from remediator.errors import RemediatorError
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from slurm_bridge.model import Reservation

NO_REPLACE = "remediator.dev/no-replace"
MAX_VALUE = 80
# A label cannot hold RFC 3339 (no "=", no ":"), so there it is until-20261129T180000Z.
_UNTIL = re.compile(r"until[=-](\d{4}-?\d\d-?\d\dT\d\d:?\d\d:?\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:?\d\d))")
Kind = Literal["label", "protected", "maintenance", "rollout", "unreadable"]


@dataclass(frozen=True, slots=True)
class Protected:
    """Pods that hold their node: all `labels` match, in `namespace` (empty: in every one)."""

    name: str
    labels: Mapping[str, str]
    namespace: str = ""

    def matches(self, pod: PodView) -> bool:
        """Whether this pod is one of them; without labels and namespace none is."""
        if not (self.labels or self.namespace):
            return False
        here = self.namespace in ("", pod.namespace)
        return here and all(pod.labels.get(key) == value for key, value in self.labels.items())


PROTECTED = (
    Protected("the remediator's controller", {"app.kubernetes.io/name": "remediator"}),
    Protected("slurmctld", {"app.kubernetes.io/name": "slurmctld"}),
    Protected("slurmrestd", {"app.kubernetes.io/name": "slurmrestd"}),
    Protected("slurmdbd", {"app.kubernetes.io/name": "slurmdbd"}),
)


@dataclass(frozen=True, slots=True)
class Veto:
    """One veto: on which "node NAME" or "pod NAMESPACE/NAME", why, and since when we see it."""

    kind: Kind
    target: str
    reason: str
    since: float

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}"


def veto(
    node: NodeView,
    pods: Iterable[PodView],
    label_key: str,
    protected: Iterable[Protected],
    *,
    now: float,
    before: Veto | None = None,
) -> Veto | None:
    """The veto that stands on a node and its pods as just read: `before` while it stands, with its age."""
    standing = vetoes(node, pods, label_key, protected, now=now)
    return next((_aged(found, before) for found in standing if _same(found, before)), None) or next(
        iter(standing), None
    )


def vetoes(
    node: NodeView, pods: Iterable[PodView], label_key: str, protected: Iterable[Protected], *, now: float
) -> tuple[Veto, ...]:
    """All vetoes: the node's own, then labelled pods, then protected ones, each by name. Finished pods,
    mirror pods and pods of a DaemonSet never count.
    """
    living = sorted(filter(_counts, pods), key=lambda pod: pod.key)
    found = list(_labelled(f"node {node.name}", node.labels, node.annotations, label_key, now))
    for pod in living:
        found += _labelled(f"pod {pod.key}", pod.labels, pod.annotations, label_key, now)
    rows = tuple(protected)
    found += [
        Veto("protected", f"pod {pod.key}", f"is {row.name}, a protected workload", now)
        for pod in living
        for row in rows
        if row.matches(pod)
    ]
    return tuple(found)


def maintenance(
    reservations: Iterable[Reservation], slurm_nodes: Iterable[str], soon_s: float, *, now: float
) -> Veto | None:
    """The veto of a maintenance reservation that holds one of the nodes now or within `soon_s` seconds."""
    names = tuple(slurm_nodes)
    for reservation in reservations:
        held = [
            name for name in names if reservation.is_maintenance and _within(reservation, name, soon_s, now)
        ]
        if held:
            when = "is under way" if reservation.covers(held[0], now) else f"begins within {soon_s:.0f} s"
            return Veto(
                "maintenance", f"node {held[0]}", f"maintenance {reservation.name[:MAX_VALUE]} {when}", now
            )
    return None


def rollout(node: str, nodeset: str, *, now: float) -> Veto | None:
    """The veto while slurm-operator replaces the pods of this NodeSet ("namespace/name", or empty)."""
    return Veto("rollout", f"node {node}", f"NodeSet {nodeset} is being rolled out", now) if nodeset else None


def _within(reservation: Reservation, name: str, soon_s: float, now: float) -> bool:
    """It holds the node at some time from now until `soon_s` from now."""
    begins = max(now, reservation.start or now)
    return begins <= now + soon_s and reservation.covers(name, begins)


def unreadable(node: str, error: RemediatorError, *, now: float, before: Veto | None = None) -> Veto:
    """The veto of a node whose vetoes cannot be read: what is unknown is never safe."""
    found = Veto("unreadable", f"node {node}", f"its vetoes cannot be read: {error}", now)
    return _aged(found, before) if _same(found, before) else found


def _counts(pod: PodView) -> bool:
    return not (pod.finished or pod.mirror or pod.of_daemon_set)


def _labelled(
    target: str, labels: Mapping[str, str], annotations: Mapping[str, str], key: str, now: float
) -> Iterator[Veto]:
    """Label and annotation of the same key each may veto; the label comes first."""
    for what, values in (("label", labels), ("annotation", annotations)):
        said = _said(values[key], now) if key in values else None
        if said is not None:
            yield Veto("label", target, f"{what} {key} {said}", now)
            return


def _said(value: str, now: float) -> str | None:
    """What a value that vetoes says; None for one that does not."""
    if value == "false":
        return None
    if value == "true":
        return "is true"
    until = _until(value)
    if until is None:
        return f"has the unrecognised value {value[:MAX_VALUE]!r}, which counts as true"
    return f"holds {value}" if now < until else None


def _until(value: str) -> float | None:
    found = _UNTIL.fullmatch(value)
    try:
        return datetime.fromisoformat(found[1]).timestamp() if found else None
    except (ValueError, OverflowError):
        return None


def _same(found: Veto, before: Veto | None) -> bool:
    return before is not None and (found.kind, found.target) == (before.kind, before.target)


def _aged(found: Veto, before: Veto | None) -> Veto:
    return found if before is None else replace(found, since=min(found.since, before.since))
