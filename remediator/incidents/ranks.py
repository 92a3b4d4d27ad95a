"""A running job against its own past and its own ranks: it stands still, one node lags, or neither. Pure.

Tensor activity moves with a job's phase, batch and resolution, so no level is good or bad by itself. A GPU
is compared with the job's other GPUs at the same time, the job with what it did before in this run. What is
not read is unknown, and unknown is no finding.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, median

from remediator.model.ranks import BIN_S, KERNELS, TENSOR, WAITS, Finding, Reason, Work
from remediator.model.track import Track

STILL = 0.01  # of what the job does at work: less is no work
LEAST = 0.005  # a job that never did more has no level to be compared with
WORKED = 5  # bins of work before a pause can be a stall
LONGER = 2.0  # than the job's own longest pause
SPINS = 0.9
PART, PARTS = 3, 3  # a node lags when it does in each of three parts of three bins
RECENT_S = BIN_S * PART * PARTS
LOW, NEAR = 0.5, 0.8
FAR = 10.0
PEERS = 3

Place = tuple[str, str]
Bins = Mapping[Place, Mapping[int, float]]


@dataclass(frozen=True)
class _Grid:
    """Tensor activity by GPU and bin, of all of a job's GPUs; the newest bin is `last`."""

    bins: Bins
    last: int
    _levels: dict[int, float | None] = field(default_factory=dict)

    def level(self, at: int) -> float | None:
        """The median GPU; None unless all are read."""
        if at not in self._levels:
            values = [one[at] for one in self.bins.values() if at in one]
            self._levels[at] = median(values) if len(values) == len(self.bins) else None
        return self._levels[at]

    def most(self, at: int) -> float:
        """The busiest GPU that is read."""
        return max((one[at] for one in self.bins.values() if at in one), default=0.0)


def worth_asking(work: Work, tracks: Iterable[Track], now: float) -> bool:
    """Whether the last minutes leave room for a finding: else nobody needs the readings of hours."""
    grid = _grid(work, tracks, now)
    if isinstance(grid, str):
        return False
    recent = range(grid.last - WORKED + 1, grid.last + 1)
    return all(grid.most(at) <= STILL for at in recent) or len(_behind(grid)) == 1


def compare(work: Work, tracks: Sequence[Track], now: float, flat_s: float) -> Finding:
    """What the job does; `flat_s` without work are a stall."""
    grid = _grid(work, tracks, now)
    if isinstance(grid, str):
        return Finding("unknown", grid)
    found = _stall(grid, work, tracks, flat_s)
    return found if found.outcome != "works" or found.flat_s else _straggler(grid, work, tracks)


def _grid(work: Work, tracks: Iterable[Track], now: float) -> _Grid | Reason:
    """A GPU that is not there at all is as unknown as one whose newest reading is missing."""
    first = int(work.began // BIN_S) + 1
    bins = _binned((one for one in tracks if one.what == TENSOR), work, first, 1.0)
    if work.gpus is None or (len(bins) > work.gpus):
        return "gpus"  # it shares its nodes, and nobody knows which of their GPUs it has
    last = int(now // BIN_S)
    if last < first:
        return "short"  # none of its bins is over
    if len(bins) < work.gpus or not bins or any(last not in one for one in bins.values()):
        return "unread"
    return _Grid(bins, last)


def _binned(tracks: Iterable[Track], work: Work, first: int, most: float) -> Bins:
    """The highest reading of each bin, whoever tells it: one that says that a GPU works is enough."""
    found: dict[Place, dict[int, float]] = defaultdict(dict)
    for track in tracks:
        if track.node not in work.nodes:
            continue
        of = found[track.node, track.place]
        for at, value in track.samples:
            number = int(at // BIN_S)
            if number >= first and math.isfinite(value) and 0 <= value <= most:
                of[number] = max(of.get(number, 0.0), value)
    return found


def _stall(grid: _Grid, work: Work, tracks: Iterable[Track], flat_s: float) -> Finding:
    first = int(work.began // BIN_S) + 1
    levels = [level for at in range(first, grid.last + 1) if (level := grid.level(at)) is not None]
    usual = max(levels, default=0.0)
    if usual < LEAST:
        return Finding("unknown", "idle")
    works = {at for at in range(first, grid.last + 1) if grid.most(at) > STILL * usual}
    flat = 0
    while grid.last - flat not in works and grid.level(grid.last - flat) is not None:
        flat += 1
    if not flat:
        return Finding("works")
    if len(works) < WORKED:
        return Finding("unknown", "short")
    seconds, pause = flat * BIN_S, _longest_pause(works) * BIN_S
    if seconds < max(flat_s, LONGER * pause):
        return Finding("works", flat_s=seconds)
    still = range(grid.last - flat + 1, grid.last + 1)
    return _stalled(grid, _binned((one for one in tracks if one.what == KERNELS), work, still[0], 1.0), still)


def _longest_pause(works: Iterable[int]) -> int:
    """Bins without work, or unread, that the job came back from."""
    known = sorted(works)
    return max((later - earlier - 1 for earlier, later in pairwise(known)), default=0)


def _stalled(grid: _Grid, ran: Bins, still: range) -> Finding:
    """A collective spins on the ranks that are in it; the one that never joined may run nothing."""
    found = Finding("stalled", flat_s=len(still) * BIN_S)
    if any(at not in ran.get(place, {}) for place in grid.bins for at in still):
        return found
    free = sorted(place for place in grid.bins if any(ran[place][at] < SPINS for at in still))
    node, gpu = free[0] if len(free) == 1 and len(grid.bins) > 1 else ("", "")
    return replace(found, spinning=2 * len(free) <= len(grid.bins), node=node, gpu=gpu)


def _straggler(grid: _Grid, work: Work, tracks: Sequence[Track]) -> Finding:
    if len(work.nodes) <= PEERS:
        return Finding("works", "few-nodes")
    recent = range(grid.last - PART * PARTS + 1, grid.last + 1)
    if any(grid.level(at) is None for at in recent):
        return Finding("unknown", "short" if recent[0] <= work.began // BIN_S else "unread")
    behind = _behind(grid)
    if len(behind) != 1:  # of several none stands out: that is how the job is laid out
        return Finding("works")
    ((node, (gpu, share)),) = behind.items()
    rails = _waiting(node, grid, work, tracks)
    if rails is None:
        return Finding("unknown", "waits-unread")
    if len(rails) != 1:
        return Finding("works")
    return Finding("straggler", node=node, gpu=gpu, share=share, rail=rails[0])


def _parts(last: int) -> Iterator[range]:
    for index in range(PARTS):
        begin = last - PART * (PARTS - index) + 1
        yield range(begin, begin + PART)


def _behind(grid: _Grid) -> dict[str, tuple[str, float]]:
    """Nodes with a GPU that does far less than the other nodes' in every part, and its share of theirs."""
    shares: dict[Place, list[float]] = defaultdict(list)
    for part in _parts(grid.last):
        if any(grid.level(at) is None for at in part):
            return {}
        for place, share in _low({place: fmean(one[at] for at in part) for place, one in grid.bins.items()}):
            shares[place].append(share)
    found: dict[str, tuple[str, float]] = {}
    for (node, gpu), of in sorted(shares.items()):
        if len(of) == PARTS and max(of) < found.get(node, ("", 1.0))[1]:
            found[node] = gpu, max(of)
    return found


def _low(means: Mapping[Place, float]) -> Iterator[tuple[Place, float]]:
    """GPUs that are low, with their share. Where the peers differ so much themselves nobody stands out."""
    ordered = sorted(means.values())
    near = NEAR * ordered[len(ordered) // 2]
    of: dict[str, dict[Place, float]] = defaultdict(dict)
    for place, mean in means.items():
        of[place[0]][place] = mean
    for mine in of.values():
        usual = _middle(ordered, mine.values()) if min(mine.values()) < near else 0.0
        if usual >= LEAST:
            yield from ((place, mean / usual) for place, mean in mine.items() if mean < LOW * usual)


def _middle(ordered: Sequence[float], without: Collection[float]) -> float:
    """The lower median of ordered values without some of them; 0 of none. For jobs of thousands of GPUs."""
    rest = len(ordered) - len(without)
    at = (rest - 1) // 2
    for value in sorted(without):
        at += bisect_left(ordered, value) <= at
    return ordered[at] if rest else 0.0


def _waiting(node: str, grid: _Grid, work: Work, tracks: Iterable[Track]) -> list[str] | None:
    """Rails of the node that wait far longer than the peers' same rail and its own others; None: unread."""
    first = grid.last - PART * PARTS
    counts = _binned((one for one in tracks if one.what == WAITS), work, first, 2.0**63)
    wanted = range(first, grid.last + 1)
    grown = {
        place: [sum(max(0.0, of[at] - of[at - 1]) for at in part) for part in _parts(grid.last)]
        for place, of in counts.items()
        if all(at in of for at in wanted)
    }
    if {who for who, _ in grown} != set(work.nodes):
        return None
    return [rail for who, rail in grown if who == node and _stands_out(node, rail, grown)]


def _stands_out(node: str, rail: str, grown: Mapping[Place, Sequence[float]]) -> bool:
    peers = [of for (who, which), of in grown.items() if who != node and which == rail]
    own = [of for (who, which), of in grown.items() if who == node and which != rail]
    if len(peers) < PEERS:
        return False
    for part, amount in enumerate(grown[node, rail]):
        usual = [median(of[part] for of in others) for others in (peers, own) if others]
        if amount <= 0 or any(amount <= FAR * one for one in usual):
            return False
    return True
