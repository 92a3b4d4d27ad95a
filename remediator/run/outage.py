"""A mass outage: while many machines are gone at once nothing is written anywhere, for open incidents too."""

from __future__ import annotations

import threading

from remediator.clock import Clock
from remediator.observe.logs import logger

SETTLE_S = 60.0  # kubelets and slurmds that come back flap, and what is known of them is old
log = logger(stage="outage")


class Outage:
    """Told by each look at the machines, asked before every step and every write, from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._why: str | None = None
        self._clear_since: float | None = None
        self._lock = threading.Lock()

    def saw(self, why: str | None) -> None:
        """What a look found: why nothing may be written (the first reason stays), or None for no outage."""
        with self._lock:
            if why is not None:
                if self._why is None:
                    log.warning("nothing is written", why=why)
                self._why, self._clear_since = self._why or why, None
            elif self._why is not None and self._clear_since is None:
                self._clear_since = self._clock.steady()

    def says(self) -> str | None:
        """Why nothing is written now; None when writing may go on."""
        with self._lock:
            since = self._clear_since
            if since is not None and self._clock.steady() - since >= SETTLE_S:
                log.warning("writing goes on", why=f"over for {SETTLE_S:.0f} s: {self._why}")
                self._why = self._clear_since = None
            if self._why is None:
                return None
            return f"{self._why}: nothing is written until that has been over for {SETTLE_S:.0f} s"
