"""Shows the leader as a Kubernetes Lease; for people only, so an error is logged and forgotten."""

from __future__ import annotations

import threading

from remediator.errors import RemediatorError
from remediator.guard import Guard
from remediator.kube.lease import LeaseMirror
from remediator.observe.logs import logger

log = logger(stage="mirror")


class Mirror:
    """Writes holder and epoch every `every_s` seconds."""

    def __init__(self, lease: LeaseMirror, guard: Guard, holder: str, every_s: float) -> None:
        self._lease = lease
        self._guard = guard
        self._holder = holder
        self._every_s = every_s
        self._stopping = threading.Event()

    def run(self) -> None:
        """Write until stopped."""
        while not self._stopping.wait(self._every_s):
            try:
                self._lease.show(
                    self._holder, self._guard.epoch, deadline=self._guard.call("mirror the lease")
                )
            except RemediatorError as error:
                log.warning("the Lease is not up to date", problem=str(error))

    def stop(self) -> None:
        """Stop writing."""
        self._stopping.set()
