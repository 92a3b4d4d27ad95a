"""Who is alive, who can take work."""

from __future__ import annotations

from remediator.clock import ManualClock
from remediator.observe.health import Health


def test_loop_that_beats_is_alive_and_a_silent_one_is_named() -> None:
    clock = ManualClock()
    health = Health(clock)
    beat = health.loop("core", 10)
    health.loop("intake", 60)
    clock.advance(9)
    beat()
    clock.advance(9)
    assert health.live().ok
    clock.advance(2)
    report = health.live()
    assert not report.ok
    assert report.lines == ("[-]core failed: silent for 11 s, at most 10 s allowed", "[+]intake ok")


def test_wall_clock_steps_do_not_kill_a_loop() -> None:
    clock = ManualClock()
    health = Health(clock)
    health.loop("core", 10)
    clock.jump(3600)
    assert health.live().ok


def test_readiness_asks_every_condition_each_time() -> None:
    health = Health(ManualClock())
    wrong: list[str] = ["the disk is full"]
    health.ready("store", lambda: wrong[0] if wrong else None)
    health.ready("policy", lambda: None)
    assert health.readiness().lines == ("[-]store failed: the disk is full", "[+]policy ok")
    wrong.clear()
    assert health.readiness().ok


def test_liveness_does_not_depend_on_readiness() -> None:
    health = Health(ManualClock())
    health.ready("store", lambda: "gone")
    assert health.live().ok


def test_check_that_breaks_is_a_failed_check_without_its_text() -> None:
    health = Health(ManualClock())

    def check() -> str | None:
        raise RuntimeError("password=abc")

    health.ready("store", check)
    assert health.readiness().lines == ("[-]store failed: the check itself failed (RuntimeError)",)
