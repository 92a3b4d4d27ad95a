"""A crash over what the links and GPUs of its nodes did until then: what one node shows alone. Pure.

What is not there is unknown: nobody is accused by a missing reading, and nobody cleared while a peer that is
not read may show the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from remediator.model.track import Track

BEFORE_S = 1200.0  # before its end: the stall comes before the time-out that ends the job
AFTER_S = 60.0  # what moved just before the end is scraped after it
STOPPED_S = 90.0  # without a reading, while the same exporter reads other GPUs
FEW_NODES = 6  # of fewer only one can stand out
MOST_NAMED = 2
SHOWN = 3
CLEAR = 50  # weight; what is less telling happens to a well node too
PEERS = 3
FAR_ABOVE = 10.0

How = Literal["rises", "falls", "counts", "flags", "lives", "waits"]
Outcome = Literal["named", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class What:
    """A kind of reading: how its samples speak, how telling that is, in which words. Values outside 0 to
    `most` are no readings; less than `least` (a count, or samples) is nothing.
    """

    how: How
    weight: int
    words: str
    most: float = 1.0
    least: float = 1.0


_COUNT = 2.0**31 - 1024  # what is above is how exporters say that they do not know
WHATS = {
    "gpu-lost": What("rises", 100, "was lost"),
    "xid": What("counts", 90, "was told", _COUNT),
    "sxid": What("counts", 90, "was told", _COUNT),
    "ecc": What("counts", 80, "had uncorrected memory errors", _COUNT),
    "gpu-reads": What("lives", 75, "was not read any more", 200.0),
    "remap-failed": What("rises", 75, "could not remap a row"),
    "port-up": What("falls", 70, "left ACTIVE"),
    "link-downed": What("counts", 70, "went down", _COUNT),
    "nvlink-up": What("falls", 70, "went down"),
    "nvlink-recovery": What("counts", 60, "recovered from errors", _COUNT),
    "remap-pending": What("rises", 50, "wants a row remapped"),
    "remapped": What("counts", 50, "remapped rows", _COUNT),
    "slowdown": What("flags", 40, "was slowed down by its hardware", least=4),
    "link-recovery": What("counts", 40, "recovered from errors", _COUNT),
    "symbol-errors": What("counts", 30, "had symbol errors", 2.0**53, least=10),
    "waits": What("waits", 20, "waited to send far longer than the peers' did", 2.0**63),
}
CODES = frozenset({"xid", "sxid"})
"""Read wherever an agent is; that alone says nothing about links and GPUs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one place of a node did, first at second `at`; `amount` is how often, `until` when it last did so,
    or was last seen to be so still.
    """

    node: str
    what: str
    place: str
    at: float
    until: float
    amount: float = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """At most two nodes, and the sentence; `said` is what each of them shows. `clear`: it counts against the
    one node, for something telling that was so while the job ran.
    """

    outcome: Outcome
    says: str
    nodes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    clear: bool = False


def lay_over(
    nodes: Iterable[str], tracks: Iterable[Track], ended: float, began: float | None = None
) -> Verdict:
    """Which of a job's `nodes` stands out in the twenty minutes before `ended`; what was over when the run
    `began` is told, and counts against nobody: an earlier run may have ended by it.
    """
    names = sorted(set(nodes))
    if not names:
        return Verdict("unknown", "unknown: the job's nodes are not known")
    clean = [_clean(one, ended) for one in tracks if one.node in names and one.what in WHATS]
    clean = sorted((one for one in clean if len(one.samples) > 1), key=_order)
    found = [one for one in _findings(clean, ended) if one.at <= ended + AFTER_S]
    return _verdict(names, clean, found, ended, began)


def _clean(track: Track, ended: float) -> Track:
    most = WHATS[track.what].most
    inside = {
        (at, value)
        for at, value in track.samples
        if math.isfinite(value) and 0 <= value <= most and ended - BEFORE_S <= at <= ended + AFTER_S
    }
    return Track(track.node, track.what, track.place, tuple(sorted(inside)), track.teller)


def _order(track: Track) -> tuple[str, str, str, str, object]:
    return track.node, track.what, track.place, track.teller, track.samples


def _findings(tracks: Sequence[Track], ended: float) -> list[Finding]:
    """One for each place. One teller that is scraped twice must show it in both."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    quiet: set[tuple[str, str, str, str]] = set()
    for track in tracks:
        how = WHATS[track.what].how
        key = (track.node, track.what, track.place, track.teller)
        one = None if how in {"lives", "waits"} else _moved(track, ended)
        if one is None:
            quiet.add(key)
        elif key not in found or one.at < found[key].at:
            found[key] = one
    agreed = [one for key, one in found.items() if key not in quiet]
    agreed.sort(key=lambda one: one.at, reverse=True)
    places = {(one.node, one.what, one.place): one for one in agreed}
    return [*places.values(), *_stopped(tracks, ended), *_waited(tracks)]


def _moved(track: Track, ended: float) -> Finding | None:
    what = WHATS[track.what]
    if what.how == "flags":
        set_at = [at for at, value in track.samples if value >= 1 and at <= ended]
        return _finding(track, set_at[0], set_at[-1]) if len(set_at) >= what.least else None
    steps = list(_falls(track) if what.how == "falls" else _rises(track))
    began = [(before, by) for before, by in steps if before <= ended]
    total = sum(by for _, by in began)
    if not began or total < what.least:
        return None
    return _finding(track, began[0][0], ended if _stands(track) else began[-1][0], total)


def _stands(track: Track) -> bool:
    """Whether what the track tells is a state, and still so at its end."""
    what, last = WHATS[track.what], track.samples[-1][1]
    return (what.how == "rises" and last >= 1) or (what.how == "falls" and last < 1)


def _finding(track: Track, at: float, until: float, amount: float = 1.0) -> Finding:
    return Finding(track.node, track.what, track.place, at, until, amount)


def _rises(track: Track) -> Iterator[tuple[float, float]]:
    """The second before each rise above all that was seen: what comes after a reset is not news."""
    highest = track.samples[0][1]
    for (before, _), (_, value) in pairwise(track.samples):
        if value > highest:
            yield before, value - highest
            highest = value


def _falls(track: Track) -> Iterator[tuple[float, float]]:
    for (before, one), (_, other) in pairwise(track.samples):
        if one >= 1 and other < 1:
            yield before, 1.0


def _stopped(tracks: Sequence[Track], ended: float) -> Iterator[Finding]:
    """GPUs that nobody read any more, while who had read them went on to read others of the same node."""
    lasts: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    ever: dict[tuple[str, str], float] = defaultdict(float)
    for track in tracks:
        if WHATS[track.what].how == "lives":
            last = track.samples[-1][0]
            of = lasts[track.node, track.teller]
            of[track.place] = max(of.get(track.place, 0.0), last)
            ever[track.node, track.place] = max(ever[track.node, track.place], last)
    found: dict[tuple[str, str], Finding] = {}
    for (node, _), of in lasts.items():
        newest = max(of.values())
        until = min(ended, newest - STOPPED_S)
        gone = [place for place in of if ever[node, place] <= until]
        if newest >= ended - AFTER_S and len(gone) * 2 <= len(of):  # else it is the exporter
            found |= {
                (node, place): Finding(node, "gpu-reads", place, ever[node, place], ended) for place in gone
            }
    return iter(found.values())


def _waited(tracks: Sequence[Track]) -> Iterator[Finding]:
    """The port of each node that waited longest, when that is far above the other nodes' own longest."""
    worst: dict[str, tuple[float, Track]] = {}
    for track in tracks:
        span = track.samples[-1][0] - track.samples[0][0]
        if WHATS[track.what].how == "waits" and span > 0:
            rate = sum(by for _, by in _rises(track)) / span
            if track.node not in worst or rate > worst[track.node][0]:
                worst[track.node] = rate, track
    for node, (rate, track) in worst.items():
        others = [rate for other, (rate, _) in worst.items() if other != node]
        usual = median(others) if len(others) >= PEERS else 0.0
        if usual > 0 and rate > FAR_ABOVE * usual:
            yield _finding(track, track.samples[0][0], track.samples[0][0], rate / usual)


def _verdict(
    names: Sequence[str],
    tracks: Sequence[Track],
    found: Sequence[Finding],
    ended: float,
    began: float | None,
) -> Verdict:
    read: dict[str, set[str]] = defaultdict(set)
    for track in tracks:
        read[track.what].add(track.node)
    shows: dict[str, set[str]] = defaultdict(set)
    for one in found:
        shows[one.what].add(one.node)
    most = MOST_NAMED if len(names) >= FEW_NODES else 1
    alone = {what for what, who in shows.items() if len(who | (set(names) - read[what])) <= most}
    shared = {what for what, who in shows.items() if len(who) > most}
    counted = [one for one in found if one.what in alone]
    if counted:
        return _named(names, counted, ended, began)
    doubtful = set(shows) - shared
    if doubtful:
        unread = _unread(names, read, doubtful)
        return Verdict("unknown", f"unknown: {_words(doubtful)}, but {unread} is not read for that")
    blind = set(names) - set().union(*(who for what, who in read.items() if what not in CODES))
    if blind:
        return Verdict("unknown", f"unknown: no readings of {_some(blind)}, of its {len(names)} nodes")
    minutes = BEFORE_S / 60
    if shared:
        count = max(len(shows[what]) for what in shared)
        why = f"{count} of its {len(names)} nodes show the same ({_words(shared)})"
    else:
        why = f"its {len(names)} nodes show nothing in the {minutes:.0f} min before its end"
    return Verdict("none", f"no evidence against one node: {why}")


def _named(names: Sequence[str], counted: Sequence[Finding], ended: float, began: float | None) -> Verdict:
    of: dict[str, list[Finding]] = defaultdict(list)
    for one in counted:
        of[one.node].append(one)
    weight = {node: max(WHATS[one.what].weight for one in mine) for node, mine in of.items()}
    first = max(weight.values())
    telling = sorted((n for n in of if weight[n] == first), key=lambda n: (min(f.at for f in of[n]), n))
    if len(telling) > MOST_NAMED:
        return Verdict("none", f"no evidence against one node: {_some(telling)} each show something else")
    said = tuple(f"{node}: {_said(of[node], ended)}" for node in telling)
    others = len(names) - len(telling)
    peers = f"; none of its {others} other nodes does" if others else "; it has no other node to compare with"
    says = f"evidence points to {'; and to '.join(said)}{peers}"
    clear = len(telling) == 1 and any(_is_clear(one, began) for one in of[telling[0]])
    return Verdict("named", says, tuple(telling), said, clear)


def _is_clear(one: Finding, began: float | None) -> bool:
    return WHATS[one.what].weight >= CLEAR and began is not None and one.until >= began


def _said(found: Iterable[Finding], ended: float) -> str:
    told = sorted(found, key=lambda one: (-WHATS[one.what].weight, one.at, one.place))
    parts = []
    for one in told[:SHOWN]:
        often = f" ({one.amount:.0f}x)" if one.amount > 1 else ""
        when = f"{ended - one.at:.0f} s before the end" if one.at < ended else "at the end"
        parts.append(f"{one.place} {WHATS[one.what].words}{often} {when}")
    more = f", and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return ", ".join(parts) + more


def _unread(names: Sequence[str], read: dict[str, set[str]], whats: Iterable[str]) -> str:
    return _some({name for what in whats for name in names if name not in read[what]})


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else ""
    return ", ".join(ordered[:SHOWN]) + more


def _words(whats: Iterable[str]) -> str:
    return ", ".join(f"{what} {WHATS[what].words}" for what in sorted(whats))
