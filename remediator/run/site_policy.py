"""A site's overlay, read again when its files change: a ConfigMap may be edited while the service runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from remediator.errors import BadInput
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.policy import rules
from remediator.policy.files import found_in
from remediator.policy.rules import Rules
from remediator.settings.text import read
from remediator.signals import reporters

EVERY_S = 15.0
log = logger(stage="policy")


class SitePolicy:
    """The rules in force, and what a changed overlay makes of them. `nudge` is called when there is news."""

    def __init__(self, overlay: Path | None, metrics: Metrics, nudge: Callable[[], None]) -> None:
        """BadInput when the overlay is refused: nobody starts with half a policy."""
        self._overlay = overlay
        self._metrics = metrics
        self._nudge = nudge
        self._seen = _bytes_of(overlay)
        self.rules = rules.load(overlay=overlay)
        self._newer: Rules | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.wait(EVERY_S):
            self.look()

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()

    def look(self) -> None:
        """Read what has changed; what is refused changes nothing, and is told once for each change."""
        seen = _bytes_of(self._overlay)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            found = rules.load(overlay=self._overlay)
            reporters.load(overlay=self._overlay)
        except BadInput as error:
            self._newer = None
            self._metrics.policy_refused(True)
            log.warning(
                "the overlay has changed and is refused: the policy in force stays", problem=str(error)
            )
            return
        self._metrics.policy_refused(False)
        self._newer = found if found.digest != self.rules.digest else None
        if self._newer is not None:
            self._nudge()

    def newer(self) -> Rules | None:
        """A policy that is sound and not in force yet."""
        return self._newer

    def taken(self, newer: Rules) -> None:
        """It is in force, and on the record."""
        if self._newer is newer:
            self._newer = None


def _bytes_of(overlay: Path | None) -> str:
    """What changes when a file of the overlay does, also when it cannot be read."""
    seen = sha256()
    try:
        files = found_in(overlay) if overlay else []
        beside = [overlay / reporters.BUILTIN.name] if overlay and overlay.is_dir() else []
        for file in [*files, *(one for one in beside if one.exists())]:
            seen.update(sha256(file.name.encode() + b"\0" + read(file)).digest())
    except (BadInput, OSError, ValueError) as error:
        return f"unread: {error}"
    return seen.hexdigest()
