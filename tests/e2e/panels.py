"""The dashboard of the GPUs, asked as Grafana asks: its variables have values, and each row its legend."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.prometheus import ask, label_values

_BOARD = json.loads((Path(__file__).parents[2] / "deploy/dashboards/gpus.json").read_text())
ALL = ".+"
"""What Grafana puts for "All" nodes: the variable's own `allValue`."""
_RATE_INTERVAL = "1m"  # four times the scrape interval that Grafana assumes
Rows = dict[tuple[str, ...], float]


@dataclass(frozen=True, order=True)
class Target:
    """One question of a panel."""

    title: str
    ref: str

    def __str__(self) -> str:
        return f"{self.title}-{self.ref}"

    def rows(self, node: str = ALL) -> Rows:
        """The answer now by the labels that its legend names, for this choice of nodes."""
        target = _TARGETS[self]
        names = re.findall(r"{{(\w+)}}", target["legendFormat"])
        query = target["expr"].replace("$node", node).replace("$__rate_interval", _RATE_INTERVAL)
        assert not re.search(r"\$[A-Za-z_{]", query), f"a variable without a value: {query}"
        found = [(tuple(one.labels.get(name, "") for name in names), one.value) for one in ask(query)]
        assert len(dict(found)) == len(found), f"the legend tells rows not apart: {query}"
        return dict(found)


def _targets() -> dict[Target, dict[str, Any]]:
    return {
        Target(panel["title"], one["refId"]): one for panel in _BOARD["panels"] for one in panel["targets"]
    }


_TARGETS = _targets()
TARGETS = sorted(_TARGETS)


def nodes_offered() -> list[str]:
    """What the variable `node` lets people choose from."""
    (variable,) = (one for one in _BOARD["templating"]["list"] if one["name"] == "node")
    assert variable["allValue"] == ALL
    named = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
    assert named
    return label_values(*named.groups())
