"""What a job's nodes did before its end names a node only for what that node alone is seen to do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.forensics import AFTER_S, BEFORE_S, CLEAR, WHATS, Verdict, lay_over
from remediator.model.track import Track

END = 100_000.0
NODES = [f"gpu-{number}" for number in range(8)]
TIMES = [END - BEFORE_S + 15 * step for step in range(int((BEFORE_S + AFTER_S) / 15))]
QUIET = {"port-up": 1.0, "nvlink-up": 1.0, "gpu-reads": 55.0}
Samples = tuple[tuple[float, float], ...]
MOVING = [what for what in WHATS if what not in {"gpu-reads", "waits"}]


@cache
def quiet(what: str) -> Samples:
    if what == "waits":
        return tuple((at, 1000 + at - TIMES[0]) for at in TIMES)
    return tuple((at, QUIET.get(what, 0.0)) for at in TIMES)


@cache
def faulty(what: str) -> Samples:
    """It goes wrong five minutes before the end, and stays so."""
    return tuple((at, _wrong(what, was) if at > END - 300 else was) for at, was in quiet(what))


def _wrong(what: str, was: float) -> float:
    return {"falls": 0.0, "flags": 1.0}.get(WHATS[what].how, 1.0 if WHATS[what].most == 1 else was + 20)


def tracks(bad: dict[str, set[str]] | None = None) -> list[Track]:
    """Every reading of every node; `bad` are the nodes that go wrong, by reading."""
    return [
        Track(
            node,
            what,
            f"{what}-{n}",
            faulty(what) if node in (bad or {}).get(what, ()) and n == 0 else quiet(what),
        )
        for node in NODES
        for what in WHATS
        for n in range(2)
    ]


def judged(found: list[Track], nodes: list[str] = NODES) -> Verdict:
    return lay_over(nodes, found, END)


@pytest.mark.parametrize("what", MOVING)
def test_the_one_node_that_goes_wrong_is_named_with_what_it_did(what: str) -> None:
    verdict = judged(tracks({what: {"gpu-3"}}))
    assert (verdict.outcome, verdict.nodes) == ("named", ("gpu-3",))
    assert WHATS[what].words in verdict.says
    assert "before the end; none of its 7 other nodes does" in verdict.says


@pytest.mark.parametrize("what", MOVING)
@pytest.mark.parametrize("count", [3, 8])
def test_what_more_than_two_nodes_show_names_nobody(what: str, count: int) -> None:
    verdict = judged(tracks({what: set(NODES[:count])}))
    assert (verdict.outcome, verdict.nodes) == ("none", ())
    assert f"{count} of its 8 nodes show the same" in verdict.says


@pytest.mark.parametrize("what", MOVING)
@pytest.mark.parametrize("began", [END - 86_400, END - 600, END - 200, None])
def test_it_counts_if_it_is_telling_and_was_so_while_the_run_computed(what: str, began: float | None) -> None:
    """What is over when the run begins may have ended an earlier one; a lost GPU is still lost."""
    verdict = lay_over(NODES, tracks({what: {"gpu-3"}}), END, began)
    is_state = WHATS[what].most == 1 and WHATS[what].how != "flags"
    in_time = began is not None and (began < END - 300 or is_state)
    assert verdict.clear == (in_time and WHATS[what].weight >= CLEAR)


def test_what_two_nodes_show_counts_against_neither() -> None:
    verdict = lay_over(NODES, tracks({"link-downed": {"gpu-1", "gpu-2"}}), END, END - 600)
    assert (verdict.outcome, verdict.clear) == ("named", False)


def test_the_most_telling_reading_goes_first() -> None:
    verdict = judged(tracks({"xid": {"gpu-5"}, "symbol-errors": {"gpu-1"}}))
    assert verdict.nodes == ("gpu-5",)


def test_both_ends_of_a_link_are_named_in_a_large_job_only() -> None:
    found = tracks({"link-downed": {"gpu-1", "gpu-2"}})
    assert judged(found).nodes == ("gpu-1", "gpu-2")
    assert judged(found, NODES[:4]).outcome == "none"


def test_nothing_is_no_evidence() -> None:
    verdict = judged(tracks())
    assert (
        verdict.says == "no evidence against one node: its 8 nodes show nothing in the 20 min before its end"
    )


def test_a_gpu_that_is_not_read_while_its_neighbours_are_is_named() -> None:
    found = [
        replace(one, samples=tuple(s for s in one.samples if s[0] < END - 200))
        if (one.node, one.place) == ("gpu-2", "gpu-reads-0")
        else one
        for one in tracks()
    ]
    assert judged(found).nodes == ("gpu-2",)


def test_an_exporter_that_falls_silent_names_nobody() -> None:
    silent = [
        replace(one, samples=tuple(s for s in one.samples if s[0] < END - 200))
        if one.node == "gpu-2"
        else one
        for one in tracks()
    ]
    assert judged(silent).nodes == ()


def test_waiting_to_send_counts_against_the_jobs_own_peers() -> None:
    def waits(factor: float) -> Samples:
        return tuple((at, factor * (at - TIMES[0])) for at in TIMES)

    def job(count: int) -> list[Track]:
        return [Track(node, "waits", "p", waits(50 if node == "gpu-0" else 1)) for node in NODES[:count]]

    assert judged(job(8)).nodes == ("gpu-0",)
    assert judged(job(3), NODES[:3]).nodes == ()


def test_what_came_after_the_end_is_no_cause() -> None:
    late = tuple((at, 1.0 if at > END + 20 else 0.0) for at in TIMES)
    found = [
        replace(one, samples=late) if one.place == "xid-0" and one.node == "gpu-0" else one
        for one in tracks()
    ]
    assert judged(found).nodes == ()


bad_nodes = st.dictionaries(st.sampled_from(MOVING), st.sets(st.sampled_from(NODES), min_size=1), max_size=4)


@given(bad=bad_nodes, seed=st.integers())
def test_order_and_replicas_change_nothing(bad: dict[str, set[str]], seed: int) -> None:
    found = tracks(bad)
    again = [*found, *(replace(one, samples=one.samples[::2]) for one in found)]
    random.Random(seed).shuffle(again)
    order = random.Random(seed).sample(range(len(TIMES)), len(TIMES))
    mixed = [
        replace(one, samples=tuple(one.samples[at] for at in order if at < len(one.samples))) for one in again
    ]
    assert judged(mixed).nodes == judged(found).nodes


@given(bad=bad_nodes, gone=st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(sorted(WHATS)))))
def test_a_missing_series_never_accuses(bad: dict[str, set[str]], gone: set[tuple[str, str]]) -> None:
    """Who is named shows it, and at most two can: those who do, and those that are not read for it."""
    verdict = judged([one for one in tracks(bad) if (one.node, one.what) not in gone])
    for node in verdict.nodes:
        shown = [what for what, who in bad.items() if node in who and (node, what) not in gone]
        assert any(len(bad[what] | {n for n, w in gone if w == what}) <= 2 for what in shown)


resets: list[Callable[[float], float]] = [
    lambda _: 0.0, lambda value: value / 2, lambda value: value - 1, lambda _: math.nan, lambda _: -5.0,
    lambda _: math.inf, lambda _: 9.223372036854776e18,
]  # fmt: skip


@given(
    what=st.sampled_from([w for w in MOVING if WHATS[w].how == "counts"]),
    start=st.integers(0, 10**6),
    when=st.lists(st.tuples(st.integers(0, len(TIMES) - 1), st.sampled_from(resets)), min_size=1, max_size=9),
)
def test_resets_and_blanks_never_accuse(
    what: str, start: int, when: list[tuple[int, Callable[[float], float]]]
) -> None:
    values = [float(start)] * len(TIMES)
    for index, change in when:
        values[index] = change(values[index])
    # the first sample is the highest there is: a counter that came back is where it was
    values[0] = float(start)
    told = tuple(zip(TIMES, values, strict=True))
    found = [
        replace(one, samples=told) if one.node == "gpu-0" and one.what == what else one for one in tracks()
    ]
    assert judged(found).nodes == ()


@given(
    nodes=st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=4),
    found=st.lists(
        st.builds(
            Track,
            node=st.sampled_from(["a", "b", "c", "d"]),
            what=st.sampled_from([*WHATS, "?"]),
            place=st.text(max_size=3),
            samples=st.lists(
                st.tuples(st.floats(END - 2000, END + 100) | st.floats(), st.floats() | st.floats(0, 5)),
                max_size=8,
            ).map(tuple),
            teller=st.sampled_from(["", "x"]),
        ),
        max_size=12,
    ),
    ended=st.sampled_from([END, 0.0]),
)
def test_whatever_is_told_there_is_one_sentence_and_at_most_two_nodes(
    nodes: list[str], found: list[Track], ended: float
) -> None:
    verdict = lay_over(nodes, found, ended)
    assert verdict.says
    assert (verdict.outcome == "named") == bool(verdict.nodes)
    assert set(verdict.nodes) <= set(nodes)
    assert len(verdict.nodes) <= 2
