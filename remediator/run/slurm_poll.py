"""The Slurm poll: looks at the nodes under treatment, so that a DRAIN that vanished is noticed, and at the
settings, so that a drain need not ask when slurmctld started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.view import Drained, SlurmView
from remediator.observe.logs import logger
from slurm_bridge.model import SlurmConfig
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
KNOWN_S = 60.0
log = logger(stage="slurm-poll")


class SlurmPoll:
    """Reads `watch`ed nodes every `busy_s` seconds, and every `idle_s` Slurm's settings, which also tells
    whether it answers.

    A node that cannot be read keeps what was known of it; `changed` is called when anything changed.
    """

    def __init__(
        self, port: SlurmPort, clock: Clock, changed: Callable[[], None], busy_s: float, idle_s: float
    ) -> None:
        self._port = port
        self._clock = clock
        self._changed = changed
        self._busy_s = busy_s
        self._idle_s = idle_s
        self._names: frozenset[str] = frozenset()
        self._view = SlurmView()
        self._answered = float("-inf")
        self._config: tuple[float, SlurmConfig] | None = None
        self._wake = threading.Event()
        self._stopping = False

    def watch(self, names: frozenset[str]) -> None:
        """Which Slurm nodes are of interest from now on."""
        if names != self._names:
            self._names = names
            self._wake.set()

    def view(self) -> SlurmView:
        """The last view."""
        return self._view

    def config(self) -> SlurmConfig | None:
        """Slurm's settings as they were at most a minute ago, else None."""
        if self._config is None or self._clock.steady() - self._config[0] > KNOWN_S:
            return None
        return self._config[1]

    def age(self) -> float:
        """Seconds since Slurm last answered; infinite before it ever did."""
        return self._clock.steady() - self._answered

    def run(self) -> None:
        """Poll until stopped."""
        while not self._stopping:
            self.poll()
            self._wake.wait(self._busy_s if self._names else self._idle_s)
            self._wake.clear()

    def stop(self) -> None:
        """End the loop."""
        self._stopping = True
        self._wake.set()

    def poll(self) -> None:
        """One look; settings that cannot be read keep nobody from seeing the nodes."""
        names = self._names
        self._try(partial(self._look_at_settings, every_s=self._idle_s if names else 0.0))
        if names:
            self._try(partial(self._look_at_nodes, names))
        else:
            self._see({})

    def _try(self, look: Callable[[], None]) -> None:
        try:
            look()
        except RemediatorError as error:
            log.warning("Slurm does not answer", problem=str(error))

    def _look_at_settings(self, every_s: float) -> None:
        now = self._clock.steady()
        if self._config is None or now - self._config[0] >= every_s:
            self._config = now, self._port.config(deadline=DEADLINE_S)
            self._answered = self._clock.steady()

    def _look_at_nodes(self, names: frozenset[str]) -> None:
        self._see({name: self._look(name) for name in sorted(names)})
        self._answered = self._clock.steady()

    def _see(self, found: dict[str, Drained]) -> None:
        before, self._view = self._view, SlurmView(found)
        if _facts(before) != _facts(self._view):
            self._changed()

    def _look(self, name: str) -> Drained:
        node = self._port.node(name, deadline=DEADLINE_S)
        now = self._clock.now()
        if node is None:
            return Drained(False, "", now)
        return Drained(node.is_drain, node.reason, now, node.slurmd_start_time)


def _facts(view: SlurmView) -> dict[str, tuple[bool, str]]:
    return {name: (node.drain, node.reason) for name, node in view.nodes.items()}
