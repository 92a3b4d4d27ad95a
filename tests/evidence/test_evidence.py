"""A slice of the labelled trace through the whole service; `make bench-evidence` is the same at full size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from remediator.clock import rfc3339
from remediator.run.trace import AlertRow, LineRow, NodeRow, Row, TruthRow, read
from tests.evidence import mix
from tests.evidence.__main__ import run
from tests.evidence.generate import HOUR_S, START, Generator, Size, written
from tests.evidence.score import Score
from tests.evidence.world import World

SLICE = Size(nodes=100, days=1.0, rate=40.0, seed=7)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return Generator(SLICE).rows()


@pytest.fixture(scope="module")
def played(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Score]:
    return run(rows, tmp_path_factory.mktemp("evidence"))


def test_the_goals_hold_on_a_slice(played: tuple[World, Score]) -> None:
    _, score = played
    assert all(goal.holds for goal in score.goals()), score.worst()
    assert [act for act in score.acts if not act.right and not act.is_test] == [], score.worst()


def test_the_slice_holds_faults_of_every_kind(played: tuple[World, Score]) -> None:
    """Goals that hold because nothing happened say nothing."""
    _, score = played
    hardware = Counter(truth.hardware for truth in score.truths)
    assert hardware["dead"] >= 2
    assert hardware["degraded"] >= 4
    assert hardware["well"] >= 10
    assert sum(line.right for line in score.lines.values()) >= 4


def test_jobs_go_on(played: tuple[World, Score]) -> None:
    world, _ = played
    assert sum(job.state == "RUNNING" for job in world.slurm.jobs(deadline=5.0)) > 0


def test_one_seed_is_one_trace_and_its_file_says_all_of_it(rows: list[Row]) -> None:
    assert Generator(SLICE).rows() == rows
    assert Generator(Size(SLICE.nodes, SLICE.days, SLICE.rate, seed=8)).rows() != rows
    assert read(written(rows)) == rows


def test_the_mix_is_the_published_one() -> None:
    """Counts add up to 419, every cause has a way to show, and all its ways are all of it."""
    assert sum(mix.LLAMA.values()) == mix.LLAMA_FAULTS
    assert set(mix.SHAPES) == set(mix.LLAMA)
    for cause, shapes in mix.SHAPES.items():
        assert sum(shape.share for shape in shapes) == pytest.approx(1.0), cause
    large = Generator(Size(nodes=64, days=54.0, seed=3))
    for _ in range(2000):
        large._break()
    found = Counter(row.label.partition(":")[0] for row in large._rows if isinstance(row, TruthRow))
    assert sum(found.values()) == 2000
    for cause in ("faulty GPU", "GPU HBM3 memory", "software bug"):
        assert found[cause] / 2000 == pytest.approx(mix.LLAMA[cause] / mix.LLAMA_FAULTS, rel=0.2)


@pytest.mark.parametrize("ends_h", [1.0, 9.0], ids=["while it is away", "never"])
def test_what_was_measured_on_a_machine_that_was_taken_away_says_nothing_about_the_next_of_its_name(
    tmp_path: Path, ends_h: float
) -> None:
    names = [f"gpu-000{number}" for number in range(4)]
    nodes = [NodeRow(at=START, type="node", node=name, pool="training") for name in names]
    labels = {
        "alertname": "GpuHot",
        "node": names[0],
        "fault": "gpu-hot",
        "gpu": "3",
        "UUID": "GPU-1",
        "value": "88",
    }
    alert = {"labels": labels, "startsAt": rfc3339(START + 60)}
    hot = [
        AlertRow(at=START + 60, type="alert", node=names[0], alert=alert | {"status": "firing"}),
        AlertRow(
            at=START + ends_h * HOUR_S, type="alert", node=names[0], alert=alert | {"status": "resolved"}
        ),
    ]
    dead = [
        LineRow(
            at=START + (4 + number) * HOUR_S,
            type="line",
            node=name,
            line=mix.OFF_THE_BUS.replace("{bus}", "18"),
        )
        for number, name in enumerate(names[1:3])
    ]
    world, score = run(sorted([*nodes, *hot, *dead], key=lambda row: row.at), tmp_path)
    assert names[0] in world.homes.values()  # it has come back into service
    found = Counter(act.incident.node for act in score.acts)
    assert found == dict.fromkeys(names[:3], 1)
