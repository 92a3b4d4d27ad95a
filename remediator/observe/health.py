"""Named checks behind /healthz (own heartbeats only) and /readyz (can this process take work?)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remediator.clock import Clock

Check = Callable[[], str | None]


@dataclass(frozen=True)
class Report:
    """What the checks said: `lines` has one line per check, in the manner of Kubernetes."""

    ok: bool
    lines: tuple[str, ...]


class Health:
    """Collects checks from the stages; a check returns None, or a sentence on what is wrong."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loops: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def loop(self, name: str, limit_s: float) -> Callable[[], None]:
        """Watch a loop: unless it calls the returned function every `limit_s` seconds, /healthz fails."""
        last = self._clock.steady()

        def beat() -> None:
            nonlocal last
            last = self._clock.steady()

        def check() -> str | None:
            silent = self._clock.steady() - last
            return f"silent for {silent:.0f} s, at most {limit_s:.0f} s allowed" if silent > limit_s else None

        self._loops[name] = check
        return beat

    def ready(self, name: str, check: Check) -> None:
        """Add a condition for taking work; `check` may read the store but has its own deadline."""
        self._ready[name] = check

    def live(self) -> Report:
        """Heartbeats only: nothing outside this process can make a restart help."""
        return _run(self._loops)

    def readiness(self) -> Report:
        """Every condition for taking work."""
        return _run(self._ready)


def _run(checks: dict[str, Check]) -> Report:
    found = {name: _ask(check) for name, check in list(checks.items())}
    lines = (f"[-]{name} failed: {wrong}" if wrong else f"[+]{name} ok" for name, wrong in found.items())
    return Report(not any(found.values()), tuple(lines))


def _ask(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - boundary: a check that breaks is a failed check
        return f"the check itself failed ({type(error).__name__})"
