"""Alerts as Alertmanager and Prometheus tell them: read tolerantly, one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import AwareDatetime, Field, ValidationError

from remediator.errors import BadInput
from remediator.model.base import Foreign
from remediator.signals.plain import END_OF_TIME

NAME = "__name__"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: `began` in seconds since 1970; `silenced` when people or other alerts muted it."""

    labels: Mapping[str, str]
    began: float
    firing: bool = True
    silenced: bool = False


@dataclass(frozen=True, slots=True)
class Notification:
    """A webhook body whose alerts have not been looked at yet; `truncated` when some were left out."""

    entries: Sequence[Any]
    truncated: bool


class _Webhook(Foreign):
    version: Literal["4"]
    alerts: list[Any]
    truncated: Any = Field(default=0, alias="truncatedAlerts")


class _Told(Foreign):
    """An alert of the webhook."""

    labels: dict[str, str]
    status: Literal["firing", "resolved"]
    began: AwareDatetime = Field(alias="startsAt")


class _State(Foreign):
    state: Literal["active", "suppressed", "unprocessed"]


class _Listed(Foreign):
    """An alert of GET /api/v2/alerts."""

    labels: dict[str, str]
    status: _State
    began: AwareDatetime = Field(alias="startsAt")


class _Sample(Foreign):
    """A row of a Prometheus instant query whose value is the second an alert became active."""

    metric: dict[str, str]
    value: tuple[float, str]


def read_notification(body: bytes) -> Notification:
    """The version 4 webhook body in `body`; BadInput when it is none and never will be."""
    try:
        told = _Webhook.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise BadInput(".".join(map(str, first["loc"])) or "body", first["msg"]) from None
    return Notification(told.alerts, truncated=told.truncated not in (0, None))


def told(entries: Iterable[Any]) -> list[Alert | None]:
    """The alerts of a notification, each by its own status; None where one cannot be read."""
    return [_told(entry) for entry in entries]


def listed(body: bytes) -> list[Alert | None]:
    """The alerts of an answer to GET /api/v2/alerts; BadInput when it is not a list."""
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("body", "is not JSON") from None
    if not isinstance(entries, list):
        raise BadInput("body", "is not a list of alerts")
    return [_listed(entry) for entry in entries]


def sampled(rows: Any) -> list[Alert | None]:
    """The alerts in the result of a Prometheus query; BadInput when it is not a list."""
    if not isinstance(rows, list):
        raise BadInput("result", "is not a list of samples")
    return [_sampled(row) for row in rows]


def _told(entry: Any) -> Alert | None:
    try:
        alert = _Told.model_validate(entry)
    except ValidationError:
        return None
    return _dated(alert.labels, alert.began.timestamp(), firing=alert.status == "firing")


def _listed(entry: Any) -> Alert | None:
    try:
        alert = _Listed.model_validate(entry)
    except ValidationError:
        return None
    return _dated(alert.labels, alert.began.timestamp(), silenced=alert.status.state == "suppressed")


def _sampled(row: Any) -> Alert | None:
    try:
        sample = _Sample.model_validate(row)
        began = float(sample.value[1])
    except ValueError:  # pydantic's too
        return None
    labels = {name: value for name, value in sample.metric.items() if name != NAME}
    return _dated(labels, began)


def _dated(
    labels: dict[str, str], began: float, *, firing: bool = True, silenced: bool = False
) -> Alert | None:
    if not math.isfinite(began) or not 0 <= began <= END_OF_TIME:
        return None
    return Alert(labels, began, firing, silenced)
