"""A mass outage begins at any moment: nothing is written while it lasts, then the same incident goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.run.outage import SETTLE_S
from tests.crash.test_river import MOMENTS, assert_moved_once
from tests.fakes.river import River

WHY = "5 of 5 kubelets are not Ready at once"


def writes(river: River) -> int:
    """Everything that reached Slurm or Kubernetes from us, refused or not."""
    return len(river.slurm.writes) + sum(write.actor == "remediator" for write in river.kube.writes)


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_written_before_the_outage_is_surely_over(tmp_path: Path, moment: str) -> None:
    river = River(tmp_path)
    job = river.submit_job()
    before: list[int] = []

    def begin(now: str) -> None:
        if now == moment and not before:
            before.append(writes(river))
            river.outage.saw(WHY)

    river.probe = begin
    river.xid("gpu-0")
    river.run(10.0)
    river.clock.advance(60.0)
    river.run(3.0)
    assert before == [writes(river)]
    (incident,) = river.open_incidents()
    assert any(WHY in row.sentence for row in river.steps(incident.id) if row.state != "done")
    river.outage.saw(None)
    river.clock.advance(SETTLE_S - 5)
    river.run(3.0)
    assert before == [writes(river)]
    river.run()
    assert_moved_once(river, job)
