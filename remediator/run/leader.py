"""Holding leadership: acquire once, renew every two seconds, end the process when it is lost."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

from remediator.clock import Clock
from remediator.errors import GiveUp, Retry
from remediator.guard import Lease
from remediator.observe.logs import logger
from remediator.settings import Leadership
from remediator.store import leadership
from remediator.store.engine import Store

log = logger(stage="leader")


class Leader:
    """The present lease as this process sees it; `current` is what the guard asks."""

    def __init__(self, store: Store, settings: Leadership, clock: Clock, lost: Callable[[], None]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lost = lost
        self._lease: Lease | None = None
        self._stopping = threading.Event()

    def acquire(self, holder: str, *, sole: bool) -> int:
        """Wait until leadership is ours; returns the epoch. A lease that nobody renewed for longer than one
        lasts has ended, whatever the database's clock was set to meanwhile.
        """
        seen: tuple[int, float] | None = None
        since = self._clock.steady()
        while True:
            before = self._clock.steady()
            dead = before - since > self._settings.lease_s + self._settings.renew_s
            try:
                with self._store.write() as connection:
                    claim = leadership.claim(connection)
                    if claim != seen:
                        seen, since, dead = claim, before, False
                    epoch = leadership.acquire(connection, holder, self._settings.lease_s, sole=sole or dead)
            except Retry as error:
                log.warning("the store does not answer", problem=str(error))
                epoch = None
            if epoch is not None:
                self._lease = Lease(epoch, before + self._settings.lease_s)
                return epoch
            self._clock.sleep(self._settings.renew_s)

    def current(self) -> Lease | None:
        """The lease, or None once it is lost."""
        return self._lease

    def run(self) -> None:
        """Renew until stopped; calls `lost` once when somebody took over or the lease ran out."""
        while not self._stopping.wait(self._settings.renew_s):
            if not self._renew():
                self._lease = None
                self._lost()
                return

    def stop(self) -> None:
        """Stop renewing."""
        self._stopping.set()

    def _renew(self) -> bool:
        lease = self._lease
        before = self._clock.steady()
        if lease is None or before >= lease.until:
            return False
        try:
            with self._store.write() as connection:
                kept = leadership.renew(connection, lease.epoch, self._settings.lease_s)
        except Retry as error:
            log.warning("lease not renewed", problem=str(error))
            return self._clock.steady() < lease.until
        except GiveUp as error:
            log.warning("lease not renewed", problem=str(error))
            return False
        if kept:
            self._lease = Lease(lease.epoch, before + self._settings.lease_s)
        return kept


def lock_file(url: str) -> int | None:
    """Hold an exclusive lock beside a SQLite file for this process's life; None for other stores.

    It proves that no other process of this machine uses the file; GiveUp when one does.
    """
    if not url.startswith("sqlite:///"):
        return None
    path = Path(url.removeprefix("sqlite:///")).with_suffix(".lock")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise GiveUp(
            f"store.url: cannot create {path}: {error.strerror}; check path and permissions"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise GiveUp(f"store.url: another controller uses this file ({path} is locked)") from error
    return handle
