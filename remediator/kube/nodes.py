"""What we know of a Kubernetes node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from remediator.kube.conditions import Condition, of_node, ready_since
from remediator.kube.errors import Json
from remediator.kube.read import rows, strings, table, text
from remediator.kube.soperator import Report, reports

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint; `raw` keeps fields of newer servers, so that writing the list back loses nothing."""

    key: str
    value: str
    effect: str
    raw: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as last read. `ready` is None when the condition is missing or Unknown. `gpus` are those
    the device plugin calls healthy, of `gpu_capacity`; None while it has not said. `reports` are the
    conditions that Soperator writes or acts on, `conditions` all but the kubelet's, and `ready_since` is when
    that last said another thing. `image` is its operating system and kernel, `created` when it registered
    (0.0: unknown).
    """

    name: str
    uid: str
    resource_version: str
    provider_id: str
    boot_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool | None
    gpus: int | None = None
    gpu_capacity: int | None = None
    reports: tuple[Report, ...] = ()
    conditions: tuple[Condition, ...] = ()
    ready_since: float | None = None
    image: str = ""
    created: float = 0.0

    @property
    def key(self) -> str:
        """The name."""
        return self.name


def parse_node(raw: Json) -> NodeView | None:
    """The view of a raw node; None when it has no name, uid or resourceVersion."""
    meta, spec, status = table(raw, "metadata"), table(raw, "spec"), table(raw, "status")
    name, uid, version = text(meta, "name"), text(meta, "uid"), text(meta, "resourceVersion")
    if not (name and uid and version):
        return None
    return NodeView(
        name=name,
        uid=uid,
        resource_version=version,
        provider_id=text(spec, "providerID"),
        boot_id=text(table(status, "nodeInfo"), "bootID"),
        labels=strings(meta, "labels"),
        annotations=strings(meta, "annotations"),
        taints=tuple(
            Taint(text(row, "key"), text(row, "value"), text(row, "effect"), row)
            for row in rows(spec, "taints")
        ),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status),
        gpus=_whole(table(status, "allocatable"), GPU),
        gpu_capacity=_whole(table(status, "capacity"), GPU),
        reports=reports(rows(status, "conditions")),
        conditions=of_node(rows(status, "conditions")),
        ready_since=ready_since(rows(status, "conditions")),
        image=_image(table(status, "nodeInfo")),
        created=_time(text(meta, "creationTimestamp")),
    )


def _time(written: str) -> float:
    """Seconds since the epoch; 0.0 for what is no time."""
    try:
        return datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _image(info: Json) -> str:
    """Operating system and kernel, as far as they are known."""
    return " ".join(filter(None, (text(info, "osImage"), text(info, "kernelVersion"))))


def _ready(status: Json) -> bool | None:
    for condition in rows(status, "conditions"):
        if condition.get("type") == "Ready":
            return {"True": True, "False": False}.get(text(condition, "status"))
    return None


def _whole(amounts: Json, resource: str) -> int | None:
    written = str(amounts.get(resource))
    return int(written) if written.isascii() and written.isdigit() else None
