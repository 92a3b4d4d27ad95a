"""Looks whether jobs can save in the time they would get: a warning before one has to leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from remediator.clock import Clock
from remediator.model.checkpoint import JobKey, Saved
from remediator.model.signal import Signal
from remediator.run.job_outlook import too_slow
from remediator.run.looks import Look, Submit
from remediator.signals.saves import SLOW, WELL, dedupe, slow, well
from remediator.store import checkpoints, signals
from remediator.store.engine import Store
from remediator.workflow.saved import LOOKING_S
from slurm_bridge.port import SlurmPort

EVERY_S = 60.0
DEADLINE_S = 5.0
RECENT_S = 6 * 3600.0
"""A job that has not saved for so long has most likely ended: its files stay where they are."""


class SlowSaves(Look):
    """`globs` are the pools' own; what was told before a restart is in the store."""

    stage = "slow-saves"
    unseen = "nobody knows whether jobs save in time"

    def __init__(
        self, port: SlurmPort, globs: Mapping[str, str], store: Store, submit: Submit, clock: Clock
    ) -> None:
        super().__init__(submit, clock, EVERY_S)
        self._port = port
        self._globs = globs
        self._store = store
        self._well: set[tuple[str, JobKey]] = set()

    def find(self) -> Sequence[Signal]:
        """Every job that saves too slowly now, and those that did and do not any more."""
        now = self.clock.now()
        with self._store.read() as connection:
            seen = [
                (pool, key, saved)
                for pool, glob in self._globs.items()
                for key, saved in checkpoints.all_of(connection, glob)
                if saved.save_s is not None and _is_present(saved, now)
            ]
        if not seen:
            return ()
        kill_wait = self._port.config(deadline=DEADLINE_S).kill_wait
        with self._store.read() as connection:
            return [
                one
                for pool, key, saved in seen
                for one in self._told_of(connection, pool, key, saved, kill_wait, now)
            ]

    def _told_of(
        self,
        connection: sa.Connection,
        pool: str,
        key: JobKey,
        saved: Saved,
        kill_wait: int | None,
        now: float,
    ) -> Iterator[Signal]:
        why = too_slow(saved.save_s, kill_wait)
        if why:
            self._well.discard((pool, key))
            yield slow(pool, key, _times(connection, pool, key), why, now)
        elif (pool, key) not in self._well:
            times = _times(connection, pool, key)
            if signals.first_seen(connection, dedupe(SLOW, pool, key, times)) is None:
                self._well.add((pool, key))
            else:
                yield well(pool, key, times, saved.save_s or 0.0, now)


def _is_present(saved: Saved, now: float) -> bool:
    """Whether an agent looks there now, at a job that has saved of late."""
    looked, newest = saved.looked_at or 0.0, saved.newest_at or 0.0
    return now - looked <= LOOKING_S and now - newest <= RECENT_S


def _times(connection: sa.Connection, pool: str, key: JobKey) -> int:
    """How often it has been well again."""
    times = 0
    while signals.first_seen(connection, dedupe(WELL, pool, key, times)) is not None:
        times += 1
    return times
