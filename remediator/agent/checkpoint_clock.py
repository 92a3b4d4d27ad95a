"""Looks at the jobs' checkpoints, in a thread of its own: a shared file system may hang for minutes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from remediator.agent.checkpoint_files import Files, state, summary
from remediator.agent.checkpoint_glob import Glob, parse
from remediator.agent.checkpoint_view import View
from remediator.agent.checkpoint_walk import Budget, Found, walk
from remediator.agent.collector import Log
from remediator.agent.settings import AgentSettings
from remediator.clock import Clock
from remediator.errors import GiveUp
from remediator.model.checkpoint import MOST_AGES, MOST_KEYS, CheckpointLook, Checkpoints, JobKey
from remediator.model.signal import KernelEvent

SKEW_S = 5.0
"""A file from further in the future than that is of no known age."""

HANGS_S = 120.0
LONGEST = 256


@dataclass
class _Job:
    """What is remembered of one job: when each checkpoint was complete, and since when others are written."""

    complete: dict[str, float] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    save_s: float | None = None


@dataclass
class _Watched:
    """A glob, and the last look at it. `looked_at` is wall time, `begun` steady time of a look under way."""

    glob: Glob
    before: dict[str, Files] = field(default_factory=dict)
    jobs: dict[JobKey, _Job] = field(default_factory=dict)
    views: tuple[View, ...] = ()
    looked_at: float = 0.0
    problem: str = "not looked yet"
    begun: float | None = None


class CheckpointClock:
    """`look` is its thread's; the others are for the agent's loop and its metrics and never wait for long."""

    name = "checkpoints"

    def __init__(self, settings: AgentSettings, clock: Clock, log: Log) -> None:
        self.every_s = settings.checkpoint_every_s
        self._marker = settings.checkpoint_marker
        self._clock, self._log = clock, log
        self._watched = [_Watched(parse(text)) for text in settings.checkpoint_globs]
        self._lock = threading.Lock()
        self._fresh = False

    @property
    def fresh(self) -> bool:
        """Whether there is a look that `take` has not handed out."""
        return self._fresh

    def take(self) -> tuple[CheckpointLook, ...]:
        """The last looks, to be pushed; empty when there is nothing new."""
        with self._lock:
            if not self._fresh:
                return ()
            self._fresh = False
            return tuple(self._told(watched) for watched in self._watched)

    def again(self) -> None:
        """What was taken did not arrive."""
        self._fresh = True

    def seen(self) -> tuple[tuple[str, float, tuple[View, ...]], ...]:
        """For the metrics: each glob, when it was last looked at, and what was found."""
        with self._lock:
            return tuple((one.glob.text, one.looked_at, one.views) for one in self._watched)

    def look(self, now: float, steady: float) -> tuple[KernelEvent, ...]:
        """One look at every glob; what it finds is no event."""
        for watched in self._watched:
            with self._lock:
                watched.begun = steady
            problem, views = self._look(watched)
            with self._lock:
                if problem and problem != watched.problem:
                    self._log.warning("checkpoints cannot be seen", glob=watched.glob.text, problem=problem)
                if not problem:
                    watched.views, watched.looked_at = views, now
                watched.problem, watched.begun = problem, None
                self._fresh = True
        return ()

    def _look(self, watched: _Watched) -> tuple[str, tuple[View, ...]]:
        pointer = self._marker.removeprefix("../") if self._marker.startswith("../") else ""
        try:
            found = walk(watched.glob, pointer, Budget(self._clock.steady))
        except GiveUp as error:
            return str(error)[:LONGEST], ()
        except OSError as error:
            return f"{watched.glob.root}: {error.strerror or type(error).__name__}"[:LONGEST], ()
        looked: dict[str, Files] = {}
        views = [self._view(watched, key, ones, looked) for key, ones in found.items()]
        watched.before = looked
        watched.jobs = {key: job for key, job in watched.jobs.items() if key in found}
        known = sorted((view for view in views if view is not None), key=_newest, reverse=True)
        return "", tuple(known[:MOST_KEYS])

    def _view(
        self, watched: _Watched, key: JobKey, found: Iterable[Found], looked: dict[str, Files]
    ) -> View | None:
        """What this look says of one job; None when its files are dated in the future."""
        marker = "" if self._marker.startswith("../") else self._marker
        now, job = self._clock.now(), watched.jobs.setdefault(key, _Job())
        like: Files | None = None
        writing, ahead = False, False
        partial: list[str] = []
        names: dict[float, str] = {}
        summed = [(summary(one.name, one.files, marker, ahead=one.ahead), one) for one in found]
        for files, one in sorted(summed, key=lambda pair: pair[0].last):
            what = state(files, watched.before.get(one.path), like)
            looked[one.path] = files
            ahead = ahead or files.last > now + SKEW_S
            if what == "complete":
                like = files
                partial.clear()  # what was left unfinished before it is of no interest any more
                names[files.last] = one.name
                self._completed(job, one.path, files)
                continue
            job.complete.pop(one.path, None)
            writing = writing or what == "writing"
            if what == "partial":
                partial.append(one.name)
            elif watched.looked_at:  # at the very first look it may have been there for long
                job.since.setdefault(one.path, now)
        return None if ahead else self._summed(key, job, names, partial, writing)

    def _completed(self, job: _Job, path: str, files: Files) -> None:
        """How long the save took is known from its first file, or from when it was seen to be under way."""
        began = min(files.first, job.since.pop(path, files.first))
        if job.complete.get(path) != files.last and files.last > began:
            job.save_s = files.last - began
        job.complete[path] = files.last

    def _summed(
        self, key: JobKey, job: _Job, names: dict[float, str], partial: Sequence[str], writing: bool
    ) -> View:
        """Older ones that were complete count on after a job has removed them, but never the newest."""
        newest = max(names, default=0.0)
        job.complete = dict(sorted(_up_to(job.complete, newest), key=lambda one: one[1])[-2 * MOST_AGES :])
        times = sorted(job.complete.values(), reverse=True)
        gaps = [later - earlier for later, earlier in pairwise(times)]
        return View(
            key=key,
            newest=names.get(newest, "")[:LONGEST],
            times=tuple(times[:MOST_AGES]),
            save_s=job.save_s,
            cadence_s=median(gaps) if gaps else None,
            partial=tuple(name[:LONGEST] for name in partial[-MOST_AGES:]),
            writing=writing,
        )

    def _told(self, watched: _Watched) -> CheckpointLook:
        now = self._clock.now()
        hangs = watched.begun is not None and self._clock.steady() - watched.begun > HANGS_S
        problem = "the file system does not answer" if hangs else watched.problem
        found = () if problem else tuple(_pushed(view, now) for view in watched.views)
        looked_s = max(0.0, now - watched.looked_at) if watched.looked_at else 0.0
        return CheckpointLook(glob=watched.glob.text, looked_s=looked_s, problem=problem, found=found)


def _up_to(times: dict[str, float], newest: float) -> list[tuple[str, float]]:
    return [(path, at) for path, at in times.items() if at <= newest]


def _newest(view: View) -> float:
    return max(view.times, default=0.0)


def _pushed(view: View, now: float) -> Checkpoints:
    return Checkpoints(
        key=view.key,
        newest=view.newest,
        ages=tuple(max(0.0, now - at) for at in view.times),
        save_s=view.save_s,
        cadence_s=view.cadence_s,
        partial=view.partial,
        writing=view.writing,
    )
