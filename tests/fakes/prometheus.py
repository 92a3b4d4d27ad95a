"""Prometheus' raw samples of made-up series, asked for by a selector and a range."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from remediator.errors import Retry

_QUERY = re.compile(r"(?P<name>[A-Za-z_:]*)\{(?P<matchers>.*)\}\[(?P<range>\d+)s\]", re.DOTALL)
_BINNED = re.compile(r"max_over_time\((?P<of>.*)\[(?P<bin>\d+)s\]\)\[(?P<range>\d+)s:(?P=bin)s\]", re.DOTALL)
_MATCHER = re.compile(r'(?P<label>\w+)(?P<how>=~|=)(?P<value>"(?:[^"\\]|\\.)*")')

LIMITS = {"gpu": 78.0, "memory": 95.0, "siblings": 10.0}
AGENT = {"job": "agents", "instance": "10.0.0.1:9465"}


@dataclass
class FakePrometheus:
    """Series by their labels; `silent` does not answer. `asked` are all queries so far."""

    series: list[tuple[dict[str, str], list[tuple[float, float]]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    silent: bool = False

    def put(self, metric: str, labels: dict[str, str], samples: list[tuple[float, float]]) -> None:
        """One more series; samples are (second, value)."""
        self.series.append(({"__name__": metric, **labels}, samples))

    def limits(self, at: float, **limits: float) -> None:
        """The site's limits, as recorded just now."""
        for of, value in (limits or LIMITS).items():
            self.put("remediator:limit:celsius", {"of": of}, [(at - 15, value), (at, value)])

    def __call__(self, query: str, at: float) -> Any:
        """The answer's result."""
        self.asked.append(query)
        if self.silent:
            raise Retry("no answer")
        binned = _BINNED.fullmatch(query)
        if binned is not None:
            reach, every = int(binned["range"]), int(binned["bin"])
            return _highest(self._select(f"{binned['of']}[{reach + every}s]", at), at - reach, at, every)
        return self._select(query, at)

    def _select(self, query: str, at: float) -> Any:
        found = _QUERY.fullmatch(query)
        assert found is not None, query
        wanted = [_matcher(one) for one in _MATCHER.finditer(found["matchers"])]
        if found["name"]:
            wanted.append(("__name__", re.escape(found["name"])))
        answer = []
        for labels, samples in self.series:
            inside = [one for one in samples if at - int(found["range"]) <= one[0] <= at]
            if inside and all(re.fullmatch(value, labels.get(name, "")) for name, value in wanted):
                answer.append({"metric": labels, "values": [[when, str(value)] for when, value in inside]})
        return answer


def _highest(rows: list[Any], since: float, until: float, every: int) -> list[Any]:
    """As `max_over_time(…[bin])[reach:bin]`: at each whole bin what was highest in the one before."""
    ends = range(-(-int(since) // every) * every, int(until) + 1, every)
    answer = []
    for row in rows:
        inside = [(end, [float(v) for t, v in row["values"] if end - every < t <= end]) for end in ends]
        labels = {name: text for name, text in row["metric"].items() if name != "__name__"}
        values = [[end, str(max(found))] for end, found in inside if found]
        if values:
            answer.append({"metric": labels, "values": values})
    return answer


def steady(value: float, now: float, *, seconds: float = 720, every: float = 15) -> list[tuple[float, float]]:
    """One value for so long, the last sample 5 s before `now`."""
    return [(now - 5 - every * index, value) for index in range(int(seconds / every), -1, -1)]


def _matcher(found: re.Match[str]) -> tuple[str, str]:
    value = str(json.loads(found["value"]))
    return found["label"], value if found["how"] == "=~" else re.escape(value)
