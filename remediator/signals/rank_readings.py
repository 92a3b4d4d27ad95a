"""Asks Prometheus what the GPUs and rails of jobs' nodes did, as one reading for each bin."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from remediator.model.ranks import BIN_S, KERNELS, TENSOR, WAITS
from remediator.model.track import Track
from remediator.signals.inquiry import Ask
from remediator.signals.plain import shown
from remediator.signals.samples import Series, read_series

TOGETHER = 16
"""Nodes in one question: their names stand in its URL."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\[\]-]{0,252}")
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class _Spelling:
    """An exporter's series, the label that is the place, and what makes its value a share."""

    metric: str
    place: str
    times: float = 1.0


AGENT = {
    TENSOR: _Spelling("remediator_gpu_tensor_activity_ratio", "gpu"),
    KERNELS: _Spelling("remediator_gpu_utilization_ratio", "gpu"),
    WAITS: _Spelling("remediator_ib_wait_ticks_total", "rail"),
}
DCGM = {
    TENSOR: _Spelling("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu"),
    KERNELS: _Spelling("DCGM_FI_DEV_GPU_UTIL", "gpu", 0.01),
}
DCGM_NODE = ("Hostname", "hostname")
"""The label that names the node, by version of dcgm-exporter."""


def rank_readings(
    ask: Ask, nodes: Sequence[str], whats: Sequence[str], at: float, reach: float
) -> list[Track]:
    """Of at most TOGETHER nodes, `reach` seconds back from second `at`; Retry for no answer, BadInput for
    another form. dcgm-exporter is asked where no agent tells; a node that no query can name is not read.
    """
    names = [node for node in nodes if _NAME.fullmatch(node)]
    if not names:
        return []
    agents = _agents(ask, names, at, reach)
    tracks: list[Track] = []
    for what in whats:
        found = list(_of_agents(ask, agents, what, at, reach)) if agents else []
        read = {one.node for one in found}
        unread = [name for name in names if name not in read]
        tracks += [*found, *_of_dcgm(ask, unread, what, at, reach)]
    return tracks


def _agents(ask: Ask, names: Sequence[str], at: float, reach: float) -> dict[tuple[str, str], str]:
    """Nodes by target; an address that was two nodes' says nothing about either."""
    nodes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in _binned(ask, "remediator_agent_info", "node", names, at, reach):
        nodes[_target(one.labels)].add(one.labels.get("node", ""))
    return {
        target: next(iter(who))
        for target, who in nodes.items()
        if len(who) == 1 and all(target) and _NAME.fullmatch(target[1])
    }


def _of_agents(
    ask: Ask, agents: Mapping[tuple[str, str], str], what: str, at: float, reach: float
) -> Iterator[Track]:
    spelling = AGENT[what]
    instances = sorted({instance for _, instance in agents})
    for one in _binned(ask, spelling.metric, "instance", instances, at, reach):
        node = agents.get(_target(one.labels))
        if node is not None:
            yield from _track(one, node, what, spelling, "agent")


def _of_dcgm(ask: Ask, names: Sequence[str], what: str, at: float, reach: float) -> Iterator[Track]:
    spelling = DCGM.get(what)
    if spelling is None or not names:
        return
    for label in DCGM_NODE:
        for one in _binned(ask, spelling.metric, label, names, at, reach):
            yield from _track(one, one.labels.get(label, ""), what, spelling, "dcgm")


def _track(one: Series, node: str, what: str, spelling: _Spelling, teller: str) -> Iterator[Track]:
    place = str(shown(one.labels.get(spelling.place, "")))[:_LONGEST]
    if place:  # a port without a rail carries nothing that ranks wait for
        samples = tuple((at, value * spelling.times) for at, value in one.samples)
        yield Track(node, what, f"{spelling.place} {place}", samples, teller)


def _target(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _binned(
    ask: Ask, metric: str, label: str, values: Sequence[str], at: float, reach: float
) -> list[Series]:
    """The highest sample of each bin: Prometheus says at the bin's end what the two minutes before held."""
    wanted = json.dumps("|".join(re.escape(value) for value in values))
    bin_s = f"{BIN_S:.0f}s"
    return read_series(
        ask(f"max_over_time({metric}{{{label}=~{wanted}}}[{bin_s}])[{reach:.0f}s:{bin_s}]", at)
    )
