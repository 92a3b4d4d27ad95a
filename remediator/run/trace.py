"""Traces: what was seen in a cluster, one JSON object a line, in seconds since 1970. The format's page is
runbooks/traces.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from remediator.agent.events import PUSHED
from remediator.agent.kernel_log import parse
from remediator.errors import BadInput
from remediator.model.base import Foreign
from remediator.model.signal import AgentPush, PushedEvent, Signal
from remediator.settings import Webhook
from remediator.signals.alertmanager import told
from remediator.signals.episodes import convert
from remediator.signals.plain import BOOT_ID, END_OF_TIME
from remediator.web.parse import to_signals

LABELS = Webhook()
Hardware = Literal["dead", "degraded", "well"]


class Seen(Foreign):
    """What all rows have: when it happened, and for a job the place in it that a row is about."""

    at: float = Field(ge=0, le=END_OF_TIME)
    job: int | None = None
    rank: int = Field(default=0, ge=0)


class NodeRow(Seen):
    """A node as it is from now on; the same name again is another boot, or another machine."""

    type: Literal["node"]
    node: str = Field(min_length=1)
    pool: str = ""
    gpus: int = Field(default=8, ge=0)
    leaf: str = ""
    rack: str = ""
    boot_id: str = ""


class JobRow(Seen):
    """A batch job that starts (RUNNING) or ends. With `node` it is whatever job runs there that ends."""

    type: Literal["job"]
    id: int = 0
    user: str = "unknown"
    name: str = "job"
    nodes: tuple[str, ...] = ()
    node: str = ""
    gpus: int | None = Field(default=None, ge=0)
    state: str = "RUNNING"
    code: int = 0
    signal: int = 0


class SignalRow(Seen):
    """A signal as the store keeps it, or as the service's own looks would find it."""

    type: Literal["signal"]
    node: str
    kind: str = Field(min_length=1)
    code: int | None = None
    source: Literal["agent", "webhook", "backfill", "condition", "slurm"] = "agent"
    boot_id: str = ""
    pci: str | None = None
    seen_at: float | None = None
    dedupe: str = ""
    detail: dict[str, Any] = Field(default_factory=dict)


class LineRow(Seen):
    """A line of a node's kernel log, as its agent reads it."""

    type: Literal["line"]
    node: str = Field(min_length=1)
    line: str
    boot_id: str = ""


class AlertRow(Seen):
    """An alert in the form of Alertmanager's webhook: labels, startsAt, status."""

    type: Literal["alert"]
    alert: dict[str, Any]
    node: str = ""


class HostRow(Seen):
    """A host whose agent, kubelet or slurmd stops to answer, or answers again."""

    type: Literal["host"]
    node: str = Field(min_length=1)
    silent: tuple[Literal["agent", "slurmd", "kubelet"], ...] = ()


class PersonRow(Seen):
    """A person's drain of a node in Slurm, or its end (an empty reason)."""

    type: Literal["person"]
    node: str = Field(min_length=1)
    reason: str = ""


class TruthRow(Seen):
    """What was really wrong from `at` to `until`, and with which machines: a run is judged by it."""

    type: Literal["truth"]
    fault: str
    label: str
    nodes: tuple[str, ...] = ()
    hardware: Hardware = "well"
    until: float


Row = NodeRow | JobRow | SignalRow | LineRow | AlertRow | HostRow | PersonRow | TruthRow
_ROW: TypeAdapter[Row] = TypeAdapter(Annotated[Row, Field(discriminator="type")])


def read(lines: Iterable[str | bytes]) -> list[Row]:
    """All rows in the order of their time; BadInput names the first line that is none, and its field."""
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(_ROW.validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "row"
            raise BadInput(f"line {number}: {where}", first["msg"]) from None
    return sorted(rows, key=lambda row: row.at)


def default_boot(node: str) -> str:
    """The boot of a node whose rows do not say."""
    return f"boot-of-{node}"


def signals_of(
    row: LineRow | AlertRow | SignalRow,
    number: int,
    *,
    node: str = "",
    boot: str = "",
    labels: Webhook = LABELS,
) -> list[Signal]:
    """What the service would have stored for a row, through its own doors; `number` is the row's place in the
    trace. `node` and `boot` stand for those of the row.
    """
    node, boot = node or row.node, boot or getattr(row, "boot_id", "")
    if isinstance(row, LineRow):
        return _of_line(row, number, node, boot or default_boot(node))
    if isinstance(row, AlertRow):
        named = row.alert.get("labels", {}) | ({"node": node} if node else {})
        return convert(told([row.alert | {"labels": named}]), labels, "webhook", row.at).signals
    return [
        Signal(
            source=row.source,
            node=node,
            boot_id=boot,
            kind=row.kind,
            code=row.code,
            pci=row.pci,
            seen_at=row.at if row.seen_at is None else row.seen_at,
            received_at=row.at,
            dedupe=row.dedupe or f"trace:{number}",
            detail=row.detail,
        )
    ]


def _of_line(row: LineRow, number: int, node: str, boot: str) -> list[Signal]:
    event = parse(row.line)
    if event is None or event.kind not in PUSHED:
        return []
    if not (8 <= len(boot) <= 64 and BOOT_ID.fullmatch(boot)):
        raise BadInput(f"row {number}: boot_id", "8 to 64 letters, digits, dot, dash and underscore")
    pushed = PushedEvent(seq=number, seen_at=row.at, event=event)
    return to_signals(AgentPush(node=node, boot_id=boot, events=(pushed,)), row.at)
