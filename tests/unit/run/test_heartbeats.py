from __future__ import annotations

from remediator.clock import ManualClock
from remediator.run.heartbeats import HEARD_S, Heartbeats


def test_an_agent_counts_until_three_heartbeats_are_missed() -> None:
    clock = ManualClock()
    beats = Heartbeats(clock)
    assert beats.count() == 0
    beats.heard("gpu-0", "boot", 0.0)
    clock.advance(HEARD_S)
    beats.heard("gpu-1", "boot", 0.0)
    assert beats.count() == 2
    clock.advance(0.1)
    assert beats.count() == 1
    beats.heard("gpu-0", "boot", 0.0)
    assert beats.count() == 2


def test_a_node_heard_twice_is_one_node() -> None:
    beats = Heartbeats(ManualClock())
    beats.heard("gpu-0", "boot", 0.0)
    beats.heard("gpu-0", "another-boot", 0.0)
    assert beats.count() == 1


def test_an_agents_clock_says_nothing_about_silence() -> None:
    clock = ManualClock()
    beats = Heartbeats(clock)
    beats.heard("gpu-0", "boot", clock.now() + 1e9)
    clock.jump(1e9)
    assert beats.count() == 1
    clock.advance(HEARD_S + 1)
    assert beats.count() == 0
