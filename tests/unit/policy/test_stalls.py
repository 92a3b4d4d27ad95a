"""A job that stands still is restarted only when nothing speaks against it; the first reason is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remediator.model.run import JobRun
from remediator.policy import rules
from remediator.policy.stalls import FRESH_S, SHARED, Stall, decide_stall

RUN = JobRun(job_id=7, submit_time=1, restart_count=0, address="7", user="alice", nodes=("w-0",))
RULES = rules.load().rules
HANGS = Stall(
    run=RUN,
    says="job 7 of alice stands still",
    rule=RULES["job-hangs"],
    seen_s=30.0,
    together=1,
    covered="",
    saved=False,
    stages=frozenset({"full"}),
    wanted=True,
    restarts=0,
    limit=3,
)
AGAINST: list[tuple[dict[str, Any], str, bool]] = [
    ({"stages": frozenset()}, "on no node of a pool", False),
    ({"seen_s": FRESH_S + 1}, "301 s ago", False),
    ({"covered": "i-1"}, "incident i-1 has seen to it", False),
    ({"saved": True}, "it has saved meanwhile", False),
    ({"rule": None}, "no rule speaks", False),
    ({"rule": RULES["job-stands-still"]}, "it may load, wait for storage", True),
    (
        {"run": RUN.model_copy(update={"release": "tell-only", "why": "its owner says so"})},
        "its owner says so",
        True,
    ),
    ({"stages": frozenset({"full", "observe"})}, "its pool is at stage observe", True),
    ({"stages": frozenset({"drain-only"})}, "its pool is at stage drain-only", True),
    ({"wanted": False}, "restart_failed_jobs is off", True),
    ({"together": SHARED}, "points to what they share", True),
    ({"restarts": 3}, "restarted 3 times already", True),
]


def test_a_job_that_hangs_is_restarted_where_nothing_speaks_against_it() -> None:
    found = decide_stall(HANGS)
    assert found.yes
    assert found.sentence == (
        "job 7 of alice stands still: it is restarted, because all its ranks wait for each other"
    )


@pytest.mark.parametrize(("changes", "why", "tell"), AGAINST, ids=[why for _, why, _ in AGAINST])
def test_each_reason_is_enough(changes: dict[str, Any], why: str, tell: bool) -> None:
    found = decide_stall(replace(HANGS, **changes))
    assert (found.yes, found.tell) == (False, tell)
    assert why in found.sentence
