"""What a node's state says: O11 and O12, by the tables of the field cases themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remediator.model.plan import Done
from remediator.workflow.steps.await_empty import AwaitEmpty
from slurm_bridge.model import SlurmNode
from slurm_bridge.states import node_state
from tests.cases.test_table import CASES
from tests.fakes.river import River
from tests.unit.workflow.bench import JOB, Bench

DRAINED = CASES["FC-O11"]["input"]["states"]
STATES: list[tuple[str, str, list[str], bool | None]] = CASES["FC-O12"]["input"]["cases"]


def said(text: str) -> Any:
    """The state as the case writes it: text, a REST list, or the old pair of state and flags."""
    if not text.startswith("{"):
        return text
    body = json.loads(text)
    return [body["state"], *body["state_flags"]] if "state_flags" in body else body["state"]


@pytest.mark.parametrize(("text", "meaning"), DRAINED.items(), ids=list(DRAINED))
def test_drained_is_what_the_table_says(text: str, meaning: str) -> None:
    state, _, job = text.partition(" with ")
    bench = Bench()
    base, flags = node_state(state)
    bench.slurm.mark("w-0", state=base, flags=flags)
    bench.slurm.listed = [JOB] if job else []
    empty = isinstance(AwaitEmpty().check(bench.see()), Done)
    assert empty == (meaning == "drained" or meaning.startswith("lost"))
    if meaning.startswith("lost"):
        bench.slurm.listed = [JOB]
        assert not isinstance(AwaitEmpty().check(bench.see()), Done)


@pytest.mark.parametrize(("text", "base", "flags", "usable"), STATES, ids=[row[0] for row in STATES])
def test_each_way_to_write_a_state_is_the_same_node(
    text: str, base: str, flags: list[str], usable: bool | None
) -> None:
    """A base that sinfo's short word leaves open (drng) may be either."""
    found, seen = node_state(said(text))
    assert found in base.split("|")
    assert seen == frozenset(flags)
    node = SlurmNode("n", found, seen)
    if usable is False and "DRAIN" in flags:
        assert node.is_drain
    if "NOT_RESPONDING" in flags:
        assert node.is_silent


@pytest.mark.parametrize("save", [0.5, 10.0, 70.0, 119.0])
def test_a_worker_leaves_after_the_last_job_and_no_later_than_a_look(tmp_path: Path, save: float) -> None:
    """O11 (2), (3): the job saves for that long of its 120 s."""
    river = River(tmp_path)
    river.slurm.kill_wait = 120
    job = river.submit_job(save=save)
    river.xid("gpu-0")
    ended = evicted = requeued = 0.0
    while river.clock.now() < 1_800_000_400 and not evicted:
        river.turn()
        seen = river.job(job)
        requeued = requeued or (seen.restart_count and river.clock.now())
        ended = ended or (0.0 if not requeued or seen.is_completing else river.clock.now())
        evicted = evicted or (0.0 if river.kube.pod("slurm", "w-gpu-0") else river.clock.now())
        if river.worker_node("w-gpu-0") not in {"gpu-0", None}:
            evicted = evicted or river.clock.now()
    assert 0 < ended <= evicted <= ended + 3.0
    assert ended >= requeued + min(save, 120) - 1.5
