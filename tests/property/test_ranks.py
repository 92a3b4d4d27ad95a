"""A job's ranks: what all do together is its own business, what stops for long or lags alone is not."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.ranks import compare, worth_asking
from remediator.model.ranks import BIN_S, KERNELS, TENSOR, WAITS, Finding, Work
from remediator.model.track import Track

NODES = tuple(f"gpu-{number}" for number in range(6))
GPUS = 2
BINS = 90
NOW = 50_000 * BIN_S
BEGAN = NOW - BINS * BIN_S
TIMES = [NOW - BIN_S * back for back in range(BINS - 1, -1, -1)]
FLAT_S = 1800.0
WORK = Work(NODES, len(NODES) * GPUS, BEGAN)
Level = Callable[[str, int, int], float]
"""Of a node's GPU in a bin."""


def job(
    tensor: Level,
    *,
    kernels: Level = lambda *_: 1.0,
    waits: Level = lambda *_: 5.0,
    nodes: tuple[str, ...] = NODES,
) -> list[Track]:
    """The readings of all its ranks; `waits` are the ticks that a rail's counter grows by in a bin."""

    def track(node: str, what: str, place: int, of: Level) -> Track:
        values = [of(node, place, at) for at in range(BINS)]
        if what == WAITS:
            values = [sum(values[: at + 1]) for at in range(BINS)]
        name = f"rail {place}" if what == WAITS else f"gpu {place}"
        return Track(node, what, name, tuple(zip(TIMES, values, strict=True)), "agent")

    kinds = ((TENSOR, tensor), (KERNELS, kernels), (WAITS, waits))
    return [track(node, what, place, of) for node in nodes for what, of in kinds for place in range(GPUS)]


def at_work(_node: str, _gpu: int, _at: int) -> float:
    return 0.4


def judged(tracks: list[Track], work: Work = WORK) -> Finding:
    return compare(work, tracks, NOW, FLAT_S)


def stops(bins: int) -> Level:
    """It works and then stands still for so many bins."""
    return lambda node, gpu, at: 0.0 if at >= BINS - bins else at_work(node, gpu, at)


def lags(share: float, node: str = "gpu-3") -> Level:
    return lambda who, gpu, at: 0.4 * (share if (who, gpu) == (node, 1) else 1.0)


def one_rail(node: str = "gpu-3", ticks: float = 900.0) -> Level:
    return lambda who, rail, at: ticks if (who, rail) == (node, 1) else 5.0


@given(st.lists(st.floats(0.03, 1.0), min_size=BINS, max_size=BINS), st.integers(0, 2**32))
def test_whatever_all_ranks_do_together_is_nothing(scale: list[float], seed: int) -> None:
    """Phases, resolutions and batches: any common rescaling over time, and a little noise of each rank."""
    noise = random.Random(seed)
    found = judged(job(lambda _node, _gpu, at: 0.8 * scale[at] * noise.uniform(0.9, 1.1), waits=one_rail()))
    assert (found.outcome, found.flat_s) == ("works", 0.0)


@given(st.floats(0.02, 1.0), st.integers(15, 70))
def test_a_job_that_worked_and_stands_still_for_so_long_is_stalled(level: float, bins: int) -> None:
    """However busy it was: half a hour without any tensor work is that for a small model too."""
    stall = stops(bins)
    found = judged(job(lambda *of: level * stall(*of)))
    assert (found.outcome, found.flat_s, found.spinning) == ("stalled", bins * BIN_S, True)


@given(st.integers(1, 14), st.integers(0, 14))
def test_a_pause_is_no_stall_and_one_longer_than_its_own_pauses_is_needed(pause: int, now: int) -> None:
    """Checkpoints, evaluation, loading: all ranks stop, and come back."""
    found = judged(job(lambda *of: 0.0 if 20 <= of[2] < 20 + pause or of[2] >= BINS - now else 0.4))
    assert (found.outcome, found.flat_s) == ("works", now * BIN_S)


@pytest.mark.parametrize(
    ("pause", "now", "outcome"), [(10, 19, "works"), (10, 20, "stalled"), (3, 15, "stalled")]
)
def test_a_stall_lasts_twice_as_long_as_any_pause_the_job_came_back_from(
    pause: int, now: int, outcome: str
) -> None:
    tracks = job(lambda *of: 0.0 if 20 <= of[2] < 20 + pause or of[2] >= BINS - now else 0.4)
    assert judged(tracks).outcome == outcome


def test_one_rank_that_works_on_is_no_stall() -> None:
    stall = stops(40)
    assert judged(job(lambda *of: 0.4 if of[:2] == ("gpu-5", 1) else stall(*of))).outcome == "works"


@pytest.mark.parametrize(("busy", "spinning"), [(1.0, True), (0.0, False)])
def test_a_stall_says_whether_kernels_run_all_the_while(busy: float, spinning: bool) -> None:
    """A hung collective spins; a job that loads, or that nobody uses, does not."""
    assert judged(job(stops(20), kernels=lambda *_: busy)).spinning is spinning


@pytest.mark.parametrize("free", range(len(NODES) * GPUS + 1))
def test_the_one_rank_that_runs_nothing_while_the_others_wait_is_named(free: int) -> None:
    """It may never have joined the collective in which the others spin."""
    ranks = [(node, gpu) for node in NODES for gpu in range(GPUS)]
    found = judged(job(stops(20), kernels=lambda node, gpu, at: float((node, gpu) not in ranks[:free])))
    assert found.spinning is (free <= len(ranks) / 2)
    assert (found.node, found.gpu) == (("gpu-0", "gpu 0") if free == 1 else ("", ""))


def test_kernels_that_are_not_read_are_not_known_to_run() -> None:
    tracks = [one for one in job(stops(20)) if one.what != KERNELS or one.node != "gpu-2"]
    assert (judged(tracks).outcome, judged(tracks).spinning) == ("stalled", None)


@given(
    st.floats(0.0, 0.45), st.sampled_from(NODES), st.lists(st.floats(0.1, 1.0), min_size=BINS, max_size=BINS)
)
def test_one_low_rank_whose_node_waits_on_one_rail_is_found_in_any_phase(
    share: float, node: str, scale: list[float]
) -> None:
    low = lags(share, node)
    found = judged(job(lambda *of: scale[of[2]] * low(*of), waits=one_rail(node)))
    assert (found.outcome, found.node, found.gpu, found.rail) == ("straggler", node, "gpu 1", "rail 1")
    assert math.isclose(found.share, share, abs_tol=1e-6)


@given(st.lists(st.floats(0.3, 0.6), min_size=len(NODES) * GPUS, max_size=len(NODES) * GPUS), st.booleans())
def test_a_rank_is_compared_with_the_middle_of_the_other_nodes_ranks(levels: list[float], tie: bool) -> None:
    values = [round(level, 1) for level in levels] if tie else levels
    own = values[3 * GPUS + 1] = 0.1
    others = values[: 3 * GPUS] + values[4 * GPUS :]
    found = judged(job(lambda node, gpu, at: values[NODES.index(node) * GPUS + gpu], waits=one_rail()))
    assert (found.outcome, found.node) == ("straggler", "gpu-3")
    assert math.isclose(found.share, own / median_low(others))


def test_waits_where_nobody_else_waits_at_all_count_too() -> None:
    waits = one_rail()
    tracks = job(lags(0.2), waits=lambda *of: waits(*of) if waits(*of) > 5 else 0.0)
    assert judged(tracks).node == "gpu-3"


HEALTHY: dict[str, list[Track]] = {
    "no waits": job(lags(0.2)),
    "a little low": job(lags(0.7), waits=one_rail()),
    "another node waits": job(lags(0.2), waits=one_rail("gpu-1")),
    "all its rails wait": job(lags(0.2), waits=lambda who, *_: 900.0 if who == "gpu-3" else 5.0),
    "that rail waits everywhere": job(lags(0.2), waits=lambda _, rail, at: 900.0 if rail == 1 else 5.0),
    "waited for one part only": job(
        lags(0.2), waits=lambda who, rail, at: 900.0 if (who, rail) == ("gpu-3", 1) and at > BINS - 4 else 5.0
    ),
    "low for one part only": job(
        lambda who, gpu, at: 0.05 if (who, gpu) == ("gpu-3", 1) and at > BINS - 4 else 0.4, waits=one_rail()
    ),
    "two nodes are low": job(lambda who, *_: 0.05 if who in {"gpu-3", "gpu-4"} else 0.4, waits=one_rail()),
    "ranks differ widely": job(
        lambda who, gpu, at: 0.05 if (who, gpu) == ("gpu-3", 1) else 0.1 + 0.2 * (NODES.index(who) % 3),
        waits=one_rail(),
    ),
}


@pytest.mark.parametrize("what", HEALTHY)
def test_a_rank_is_behind_only_alone_and_with_its_own_rail_waiting(what: str) -> None:
    assert judged(HEALTHY[what]).outcome == "works"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_a_few_nodes_none_is_compared_with_the_others(count: int) -> None:
    nodes = NODES[3 - count + 1 : 4]
    found = judged(job(lags(0.1), waits=one_rail(), nodes=nodes), Work(nodes, count * GPUS, BEGAN))
    assert (found.outcome, found.reason) == ("works", "few-nodes")


def _without(tracks: list[Track], node: str) -> list[Track]:
    return [one for one in tracks if one.node != node]


def _stale(tracks: list[Track]) -> list[Track]:
    return [replace(one, samples=one.samples[:-2]) if one.node == "gpu-2" else one for one in tracks]


def _blank(value: float) -> Callable[[list[Track]], list[Track]]:
    def blank(tracks: list[Track]) -> list[Track]:
        return [
            replace(one, samples=tuple((at, value) for at, _ in one.samples))
            if (one.node, one.what, one.place) == ("gpu-2", TENSOR, "gpu 1")
            else one
            for one in tracks
        ]

    return blank


SPOILT: dict[str, Callable[[list[Track]], list[Track]]] = {
    "no series at all": lambda _: [],
    "a node without GPM": lambda tracks: _without(tracks, "gpu-2"),
    "one GPU without": lambda tracks: [one for one in tracks if (one.node, one.place) != ("gpu-2", "gpu 1")],
    "stale": _stale,
    "NaN": _blank(math.nan),
    "DCGM's blank": _blank(9.2e18),
    "negative": _blank(-0.1),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize(
    "tracks", [job(stops(20)), job(lags(0.1), waits=one_rail())], ids=["stall", "straggler"]
)
def test_what_is_not_read_is_never_a_finding(how: str, tracks: list[Track]) -> None:
    found = judged(SPOILT[how](tracks))
    assert (found.outcome, found.reason) == ("unknown", "unread")


@given(st.integers(0, 2**32), st.integers(15, 60))
def test_readings_that_are_missing_never_make_a_stall_longer(seed: int, bins: int) -> None:
    whole, chance = job(stops(bins)), random.Random(seed)
    torn = [replace(one, samples=tuple(s for s in one.samples if chance.random() < 0.98)) for one in whole]
    found = judged(torn)
    assert found.outcome in {"works", "unknown", "stalled"}
    assert found.flat_s <= bins * BIN_S


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (replace(WORK, gpus=None), "gpus"),
        (replace(WORK, gpus=4), "gpus"),  # the other GPUs of its nodes may be another job's
        (replace(WORK, gpus=WORK.gpus and WORK.gpus + 1), "unread"),
        (replace(WORK, began=NOW - 17 * BIN_S), "short"),
        (replace(WORK, began=NOW - BIN_S), "idle"),
        (replace(WORK, began=NOW), "short"),
        (replace(WORK, began=NOW - 10 * BIN_S), "idle"),  # what its GPUs did before was another job's
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_judged_is_unknown(work: Work, reason: str) -> None:
    found = judged(job(stops(15)), work)
    assert (found.outcome, found.reason) == ("unknown", reason)


def test_a_job_that_never_worked_is_unknown() -> None:
    assert judged(job(lambda *_: 0.001)).reason == "idle"


def test_who_tells_that_a_gpu_works_is_believed() -> None:
    tracks = job(stops(20))
    other = Track("gpu-0", TENSOR, "gpu 0", tuple((at, 0.4) for at in TIMES), "dcgm")
    assert judged([*tracks, other]).outcome == "works"


@given(st.floats(0.02, 1.0), st.integers(0, 40), st.floats(0.0, 1.0))
def test_hours_are_asked_for_whenever_they_could_hold_a_finding(
    level: float, bins: int, share: float
) -> None:
    stall, low = stops(bins), lags(share)
    tracks = job(lambda *of: level * stall(*of) * low(*of), waits=one_rail())
    recent = [replace(one, samples=one.samples[-9:]) for one in tracks if one.what == TENSOR]
    if judged(tracks).outcome in {"stalled", "straggler"}:
        assert worth_asking(WORK, recent, NOW)
