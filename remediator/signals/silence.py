"""Machines that are not heard any more -> Signals: two witnesses act, one pages, many at once only page.

Pure. What was never heard in this life of the controller is unknown, not silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remediator.model.signal import SILENT, Signal

DOUBT = "silence-doubted"
MANY = "silence-of-many"
TOLD = frozenset({DOUBT, MANY})
"""Kinds that only tell people; their sentence is in the detail `says`."""

MISSED_S = 25.0  # two heartbeats are missing
QUIET_S = 45.0  # in a common outage every other agent has missed two by the time that one is this quiet
DOUBT_S = 120.0
AGAIN_S = 60.0
HOUR_S = 3600.0
MANY_AT_LEAST = 2
MANY_SHARE = 0.2
OUTAGE_AT_LEAST = 3


@dataclass(frozen=True, slots=True)
class Sight:
    """One machine now: seconds since its agent was heard (None: not in this life of the controller), seconds
    for which all its slurmds have been NOT_RESPONDING (0.0: one answers; None: unknown), and its kubelet.
    """

    node: str
    boot_id: str
    quiet_s: float | None
    slurmd_s: float | None
    ready: bool | None

    @property
    def misses(self) -> bool:
        """Its agent may be silent."""
        return self.quiet_s is not None and self.quiet_s >= MISSED_S

    @property
    def is_heard(self) -> bool:
        """Its agent speaks."""
        return self.quiet_s is not None and not self.misses

    @property
    def slurmd_silent(self) -> bool:
        """None of its slurmds answers."""
        return self.slurmd_s is not None and self.slurmd_s > 0


def silences(sights: Sequence[Sight], now: float) -> list[Signal]:
    """What to tell of these machines, all that are in a pool and in service."""
    many = _many(sights)
    if many is not None:
        return [_signal(MANY, "", "", now, HOUR_S, many)]
    open_door = any(sight.is_heard for sight in sights)
    found = []
    for sight in sights:
        quiet_s = sight.quiet_s or 0.0
        if open_door and quiet_s >= QUIET_S and sight.slurmd_silent:
            says = f"its agent has been silent for {quiet_s:.0f} s, and its slurmd does not answer"
            found.append(_signal(SILENT, sight.node, sight.boot_id, now, AGAIN_S, says, quiet_s))
        elif (doubt := _doubt(sight)) is not None:
            found.append(_signal(DOUBT, sight.node, sight.boot_id, now, HOUR_S, doubt))
    return found


def outage(sights: Sequence[Sight]) -> str | None:
    """Why nothing at all may be written: many kubelets are not Ready at once, or many slurmds silent.

    Silent agents alone stop nothing: what they do not say, others do.
    """
    asked = [sight.slurmd_s for sight in sights if sight.slurmd_s is not None]
    silent = {
        "kubelets are not Ready": (sum(sight.ready is not True for sight in sights), len(sights)),
        "slurmds do not answer": (sum(seconds >= MISSED_S for seconds in asked), len(asked)),
    }
    for what, (gone, known) in silent.items():
        if gone >= min(OUTAGE_AT_LEAST, known) and _too_many(gone, known):
            return f"{gone} of {known} {what} at once"
    return None


def _many(sights: Sequence[Sight]) -> str | None:
    """Why nothing is done about any of them: too many at once have something in common."""
    heard = [sight for sight in sights if sight.quiet_s is not None]
    asked = [sight for sight in sights if sight.slurmd_s is not None]
    kinds = {
        "agents": (heard, [sight.node for sight in heard if sight.misses]),
        "slurmds": (asked, [sight.node for sight in asked if sight.slurmd_silent]),
        "kubelets": (sights, [sight.node for sight in sights if sight.ready is not True]),
    }
    for what, (known, silent) in kinds.items():
        if _too_many(len(silent), len(known)):
            some = ", ".join(sorted(silent)[:3])
            meanwhile = "nothing is written" if outage(sights) else "no node is touched for its silence"
            return (
                f"{len(silent)} of {len(known)} {what} are silent at once, {some} among them: look for what "
                f"they share; {meanwhile} meanwhile"
            )
    return None


def _too_many(silent: int, known: int) -> bool:
    return silent >= MANY_AT_LEAST and silent > MANY_SHARE * known


def _doubt(sight: Sight) -> str | None:
    """One witness alone, for long: people have a look."""
    quiet_s, slurmd_s = sight.quiet_s or 0.0, sight.slurmd_s or 0.0
    if quiet_s >= DOUBT_S and not sight.slurmd_silent:
        slurmd = "cannot be asked" if sight.slurmd_s is None else "answers"
        return f"the agent of {sight.node} has been silent for {quiet_s:.0f} s, but its slurmd {slurmd}"
    if slurmd_s >= DOUBT_S and not sight.misses:
        agent = "its agent is heard" if sight.is_heard else "nothing is known of its agent"
        return f"slurmd of {sight.node} has not answered for {slurmd_s:.0f} s, and {agent}"
    return None


def _signal(
    kind: str, node: str, boot_id: str, now: float, every_s: float, says: str, ago: float = 0.0
) -> Signal:
    return Signal(
        source="condition",
        node=node,
        boot_id=boot_id,
        kind=kind,
        seen_at=now - ago,
        received_at=now,
        dedupe=f"{kind}:{node}:{boot_id}:{int(now // every_s)}",
        detail={"says": says},
    )
