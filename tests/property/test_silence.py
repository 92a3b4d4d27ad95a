"""One witness never acts, many at once never act, and a controller that hears nobody accuses nobody."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from remediator.model.signal import SILENT
from remediator.signals.silence import (
    DOUBT,
    DOUBT_S,
    MANY,
    MISSED_S,
    OUTAGE_AT_LEAST,
    QUIET_S,
    Sight,
    outage,
    silences,
)

NOW = 10_000.0
spans = st.one_of(st.just(0.0), st.floats(0.0, 400.0))
sights = st.builds(
    Sight,
    node=st.just("gpu"),
    boot_id=st.just("boot-of-today"),
    quiet_s=st.none() | spans,
    slurmd_s=st.none() | spans,
    ready=st.sampled_from([True, False, None]),
)
clusters = st.lists(sights, max_size=30).map(
    lambda found: [replace(sight, node=f"gpu-{number}") for number, sight in enumerate(found)]
)


def healthy(count: int) -> list[Sight]:
    return [Sight(f"well-{number}", "boot-of-today", 3.0, 0.0, True) for number in range(count)]


@given(clusters, st.integers(0, 300))
def test_only_two_witnesses_of_one_machine_act(cluster: list[Sight], others: int) -> None:
    by_name = {sight.node: sight for sight in cluster}
    for signal in silences([*cluster, *healthy(others)], NOW):
        if signal.kind == SILENT:
            accused = by_name[signal.node]
            assert (accused.quiet_s or 0.0) >= QUIET_S
            assert accused.slurmd_silent
            assert signal.boot_id == accused.boot_id


@given(clusters)
def test_more_than_a_fifth_at_once_is_one_page_and_nothing_else(cluster: list[Sight]) -> None:
    counts = (
        (sum((s.quiet_s or 0.0) >= MISSED_S for s in cluster), sum(s.quiet_s is not None for s in cluster)),
        (sum((s.slurmd_s or 0.0) > 0 for s in cluster), sum(s.slurmd_s is not None for s in cluster)),
        (sum(s.ready is not True for s in cluster), len(cluster)),
    )
    if any(silent >= 2 and silent > known / 5 for silent, known in counts):
        (signal,) = silences(cluster, NOW)
        assert (signal.kind, signal.node) == (MANY, "")


@given(clusters)
def test_silent_agents_alone_never_stop_all_writing(cluster: list[Sight]) -> None:
    assert outage([replace(sight, ready=True, slurmd_s=0.0) for sight in cluster]) is None


@given(clusters, st.sampled_from(["kubelet", "slurmd"]))
def test_all_of_three_or_more_gone_at_once_stop_all_writing(cluster: list[Sight], what: str) -> None:
    gone = {"ready": False} if what == "kubelet" else {"slurmd_s": MISSED_S}
    found = outage([replace(sight, **gone) for sight in cluster])
    assert (found is not None) or len(cluster) < OUTAGE_AT_LEAST


@given(clusters)
def test_as_few_as_fail_by_chance_stop_no_writing(cluster: list[Sight]) -> None:
    """One in five, and no more than two where there are more than two."""
    few = cluster[:2]
    assert outage([*few, *healthy(4 * len(few))]) is None


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=40), st.floats(0.0, 600.0))
def test_an_outage_of_the_door_never_looks_like_one_silent_machine(phases: list[float], away: float) -> None:
    """Agents push every 10 s, so their last heartbeats are up to that far apart when nobody gets through."""
    cluster = [
        Sight(f"gpu-{number}", "boot-of-today", phase + away, 40.0 if number == 0 else 0.0, True)
        for number, phase in enumerate(phases)
    ]
    assert not [signal for signal in silences(cluster, NOW) if signal.kind == SILENT]


@given(st.integers(2, 200), st.floats(0.0, 600.0))
def test_no_kubelet_is_heard_while_slurm_hears_all_of_them(count: int, quiet: float) -> None:
    cluster = [replace(sight, ready=None, quiet_s=quiet) for sight in healthy(count)]
    assert [signal.kind for signal in silences(cluster, NOW)] == [MANY]


def test_one_silent_machine_among_heard_ones_is_told_every_minute_anew() -> None:
    dead = Sight("gpu-0", "boot-of-today", QUIET_S, 20.0, None)
    cluster = [dead, *healthy(5)]
    (first,), (again,), (later,) = (silences(cluster, NOW + passed) for passed in (0.0, 5.0, 60.0))
    assert (first.kind, first.node, first.seen_at) == (SILENT, "gpu-0", NOW - QUIET_S)
    assert first.dedupe == again.dedupe
    assert later.dedupe != first.dedupe


def test_one_witness_alone_is_told_to_people_after_two_minutes() -> None:
    agent = Sight("gpu-0", "boot-of-today", DOUBT_S, 0.0, True)
    slurmd = Sight("gpu-0", "boot-of-today", 3.0, DOUBT_S, True)
    for lonely in (agent, slurmd, replace(agent, slurmd_s=None)):
        (signal,) = silences([lonely, *healthy(9)], NOW)
        assert (signal.kind, signal.node) == (DOUBT, "gpu-0")
    for short in (replace(agent, quiet_s=DOUBT_S - 1), replace(slurmd, slurmd_s=DOUBT_S - 1)):
        assert silences([short, *healthy(9)], NOW) == []
