from __future__ import annotations

import subprocess
import sys
import threading

from remediator.run.inbox import MAX_BATCH, Inbox
from tests.unit.run.calls import answer

FOREVER = 60.0


def test_answers_come_out_in_the_order_they_came_in() -> None:
    inbox, three = Inbox(), [answer("admit"), answer("survey"), answer("close")]
    for one in three:
        inbox.answer(one)
    assert inbox.gather(FOREVER) == three
    assert inbox.gather(0.0) == []


def test_a_nudge_wakes_without_an_answer() -> None:
    inbox, woken = Inbox(), threading.Event()

    def wait() -> None:
        assert inbox.gather(FOREVER) == []
        woken.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert not woken.is_set()
    inbox.nudge()
    assert woken.wait(20.0)


def test_nudges_between_answers_are_swallowed() -> None:
    inbox, one, two = Inbox(), answer("admit"), answer("survey")
    for message in (None, one, None, None, two, None):
        inbox.nudge() if message is None else inbox.answer(message)
    assert inbox.gather(FOREVER) == [one, two]
    assert inbox.gather(0.0) == []


def test_a_batch_is_bounded_and_the_rest_comes_next() -> None:
    inbox = Inbox()
    for _ in range(MAX_BATCH + 1):
        inbox.answer(answer())
    assert len(inbox.gather(FOREVER)) == MAX_BATCH
    assert len(inbox.gather(FOREVER)) == 1


def test_a_pause_that_passes_gives_nothing() -> None:
    assert Inbox().gather(0.001) == []


def test_idling_ends_with_a_message_and_takes_none_away() -> None:
    inbox, one, two = Inbox(), answer("admit"), answer("survey")
    inbox.idle(0.001)
    assert inbox.gather(0.0) == []
    for message in (one, two):
        inbox.answer(message)
    for _ in range(3):
        inbox.idle(FOREVER)
    assert inbox.gather(0.0) == [one, two]
    inbox.nudge()
    inbox.idle(FOREVER)
    assert inbox.gather(FOREVER) == []


SIGNALLED = """
import signal
from random import Random
from remediator.run.inbox import Inbox
inbox, random = Inbox(), Random(1)
signal.signal(signal.SIGALRM, lambda *_: inbox.nudge())
for _ in range(10_000):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.000001, 0.0001))
    inbox.gather(0.0001)
print("alive")
"""


def test_a_signal_handler_may_nudge_the_thread_it_interrupts() -> None:
    """SIGTERM's handler runs inside the core's own wait: with a plain lock it would wait for itself."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=40, check=False
    )
    assert done.stdout == "alive\n", done.stderr
