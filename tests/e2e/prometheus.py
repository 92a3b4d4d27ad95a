"""The lab's Prometheus, asked from within its network."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from deploy.lab.spec import CONTROL_PLANE, PROMETHEUS_PORT

_API = f"http://{CONTROL_PLANE}:{PROMETHEUS_PORT}/api/v1"


@dataclass(frozen=True)
class Sample:
    """One element of an instant vector."""

    labels: dict[str, str]
    value: float


def ask(query: str) -> list[Sample]:
    """What an expression says now."""
    found = _get("query", {"query": query})["result"]
    return [Sample(one["metric"], float(one["value"][1])) for one in found]


def label_values(metric: str, label: str) -> list[str]:
    """What Grafana's `label_values(metric, label)` offers."""
    found: list[str] = _get(f"label/{label}/values", {"match[]": metric})
    return found


def _get(path: str, parameters: dict[str, str]) -> Any:
    with urllib.request.urlopen(f"{_API}/{path}?{urllib.parse.urlencode(parameters)}", timeout=20) as answer:
        return json.load(answer)["data"]
