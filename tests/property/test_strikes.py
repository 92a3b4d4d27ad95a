"""Whatever crashed where: one crash accuses nobody, a job that crashes elsewhere accuses no machine, and what
crashes everywhere as often accuses none.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from remediator.incidents.strikes import (
    CHANCE,
    MOST_AT_ONCE,
    Peers,
    accusers,
    burdens,
    chance,
    few,
    repeats,
    suspicion,
)
from remediator.model.strike import Strike
from remediator.settings import Witness

MACHINES = ("m0", "m1", "m2", "m3")
CALM = Peers(199, 0.0)
works = st.sampled_from(["alice/a", "alice/b", "bob/a"])
machines = st.sampled_from(MACHINES)
by: st.SearchStrategy[Witness] = st.sampled_from(["user", "work"])
crash = st.tuples(st.sampled_from(["11", "12", "13", "14"]), works, st.frozensets(machines, min_size=1))
burden = st.floats(0.01, 60)


def struck(crashes: list[tuple[str, str, frozenset[str]]]) -> list[Strike]:
    """One run per crash; a job keeps the work of its first one."""
    known: dict[str, str] = {}
    return [
        Strike(f"{job}.{run}", job, known.setdefault(job, work), machine, machine, float(run), "e")
        for run, (job, work, on) in enumerate(crashes)
        for machine in sorted(on)
    ]


def why(
    machine: str, strikes: Iterable[Strike], peers: Peers = CALM, lately: float = 0.0, of: Witness = "user"
) -> str | None:
    """In a pool of 200 machines of which the others do not crash, if it is not said otherwise."""
    return suspicion(machine, strikes, peers, lately, of)


@given(st.lists(crash, max_size=8), st.sampled_from(MACHINES), st.randoms())
def test_order_does_not_matter(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str, random: Random
) -> None:
    strikes = struck(crashes)
    mixed = list(strikes)
    random.shuffle(mixed)
    assert why(machine, mixed) == why(machine, strikes)


@given(crash, st.sampled_from(MACHINES))
def test_one_crash_accuses_nobody(one: tuple[str, str, frozenset[str]], machine: str) -> None:
    assert why(machine, struck([one])) is None


@given(st.lists(crash, max_size=8), st.sampled_from(MACHINES))
def test_a_suspect_had_two_runs_and_every_accuser_crashed_on_it_each_time(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str
) -> None:
    strikes = struck(crashes)
    against = accusers(machine, strikes)
    if why(machine, strikes) is not None:
        assert sum(against.values()) >= 2
    for job, runs in against.items():
        where = [machines for name, _, machines in crashes if name == job]
        assert len(where) == runs
        assert all(machine in machines for machines in where)


@given(st.lists(crash, max_size=6), st.sampled_from(MACHINES))
def test_a_crash_elsewhere_takes_a_jobs_accusation_back(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str
) -> None:
    elsewhere = [(job, work, frozenset(MACHINES) - {machine}) for job, work, _ in crashes]
    assert why(machine, struck(crashes + elsewhere)) is None


@given(st.lists(st.frozensets(st.sampled_from(MACHINES), min_size=1), min_size=2, max_size=6))
def test_one_users_one_script_submitted_again_and_again_accuses_nobody(nodes: list[frozenset[str]]) -> None:
    strikes = struck([(str(20 + number), "alice/a", on) for number, on in enumerate(nodes)])
    assert all(why(machine, strikes) is None for machine in MACHINES)


@given(st.sampled_from(MACHINES), st.lists(crash, max_size=5))
def test_jobs_of_two_users_on_one_calm_machine_always_make_it_suspect(
    machine: str, others: list[tuple[str, str, frozenset[str]]]
) -> None:
    two = [("21", "alice/x", frozenset({machine})), ("22", "bob/y", frozenset({machine}))]
    assert why(machine, struck(two + others)) is not None


@given(st.lists(crash, max_size=8), st.sampled_from(MACHINES), st.floats(0, 400), st.floats(0, 400))
def test_the_more_its_peers_crash_the_less_a_machine_is_suspect(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str, one: float, two: float
) -> None:
    strikes = struck(crashes)
    if why(machine, strikes, Peers(199, max(one, two))) is not None:
        assert why(machine, strikes, Peers(199, min(one, two))) is not None


@given(st.lists(st.tuples(works, st.integers(1, 64)), min_size=1, max_size=8), by)
def test_what_its_peers_bear_as_well_makes_no_machine_suspect(
    jobs: list[tuple[str, int]], of: Witness
) -> None:
    """However many witnesses there are, and however wide or narrow their jobs."""
    crashes = [
        (str(number), work, frozenset(f"n{machine}" for machine in range(wide)))
        for number, (work, wide) in enumerate(jobs)
    ]
    strikes = struck(crashes)
    mine = sum(burdens(strikes, of)["n0"].values())
    assert why("n0", strikes, Peers(199, 199 * mine), of=of) is None


@given(st.integers(2, 64))
def test_two_wide_jobs_that_overlap_make_nobody_suspect(wide: int) -> None:
    """Of each other's machines alone there is as much to be said; nothing else crashed in 200."""
    sides = [frozenset(["shared", *(f"{side}{number}" for number in range(wide - 1))]) for side in "ab"]
    strikes = struck([("1", "alice/a", sides[0]), ("2", "bob/b", sides[1])])
    others = sum(sum(said.values()) for key, said in burdens(strikes, "user").items() if key != "shared")
    assert why("shared", strikes, Peers(199, others)) is None


@given(st.lists(crash, max_size=8), by)
def test_a_job_says_at_most_as_much_as_one_crash_on_one_machine(
    crashes: list[tuple[str, str, frozenset[str]]], of: Witness
) -> None:
    strikes = struck(crashes)
    found = burdens(strikes, of)
    assert all(0 < share <= 1 for said in found.values() for share in said.values())
    for machine, said in found.items():
        against = accusers(machine, strikes)
        assert len(said) <= len(against)
    total = sum(sum(said.values()) for said in found.values())
    assert total <= len({strike.job for strike in strikes}) + 1e-9


def test_witnesses_a_day_apart_are_none_and_a_job_that_comes_again_is_one_for_longer() -> None:
    two = struck([("1", "alice/a", frozenset({"m0"})), ("2", "bob/b", frozenset({"m0"}))])
    assert why("m0", two, lately=0.0) is not None
    assert why("m0", two, lately=0.5) is None
    again = struck([("1", "alice/a", frozenset({"m0"}))] * 2)
    assert why("m0", again, Peers(3, 100.0), lately=0.5) is not None


@given(st.frozensets(machines, min_size=2), st.integers(2, 4), machines)
def test_a_job_that_crashes_on_the_same_machines_each_time_tells_of_none_of_them(
    on: frozenset[str], times: int, machine: str
) -> None:
    assert why(machine, struck([("1", "alice/a", on)] * times)) is None


@given(machines, st.frozensets(machines, min_size=1), st.integers(1, 9))
def test_one_job_again_needs_another_witness_where_jobs_crash_again_elsewhere(
    machine: str, others: frozenset[str], again: int
) -> None:
    """In a pool of jobs that fail by themselves one more of them says nothing about the machine it is on."""
    job = [("1", "alice/a", frozenset({machine})), ("1", "alice/a", others | {machine})]
    assert why(machine, struck(job)) is not None
    assert why(machine, struck(job), Peers(199, 199.0, again)) is None
    witness = ("2", "bob/b", frozenset({machine}))
    assert why(machine, struck([*job, witness]), Peers(199, 199.0, again)) is not None


@given(st.lists(crash, max_size=8))
def test_a_job_again_crashed_twice_at_least_and_on_each_machine_in_common_every_time(
    crashes: list[tuple[str, str, frozenset[str]]],
) -> None:
    for job, common in repeats(struck(crashes)).items():
        where = [on for name, _, on in crashes if name == job]
        assert len(where) > 1
        assert common == frozenset.intersection(*where)


def test_one_users_other_jobs_are_other_witnesses_only_where_one_user_submits_everything() -> None:
    two = struck([("1", "svc/a", frozenset({"m0"})), ("2", "svc/b", frozenset({"m0"}))])
    assert why("m0", two, of="user") is None
    assert why("m0", two, of="work") is not None


@given(burden, burden)
def test_a_chance_is_one_and_falls_with_the_burden(found: float, usual: float) -> None:
    assert 0 <= chance(found + 1, usual) <= chance(found, usual) <= 1
    if found <= usual:
        assert chance(found, usual) == 1


@pytest.mark.parametrize(("burden", "usual", "expected"), [(2, 0.1, 0.00468), (3, 1.0, 0.0803), (2, 0.0, 0)])
def test_of_whole_crashes_it_is_poissons(burden: float, usual: float, expected: float) -> None:
    assert chance(burden, usual) == pytest.approx(expected, rel=0.01)


@given(st.integers(2, 300), st.floats(0.0, 1.0))
def test_a_whole_pool_has_few_suspects_by_coincidence(count: int, usual: float) -> None:
    """Of machines that all crash alike, fewer than CHANCE in mean reach what makes suspect."""
    assume(usual > 0.001)
    peers = Peers(count - 1, usual * (count - 1))
    crashes = [(str(number), f"u{number}/a", frozenset({"m0"})) for number in range(40)]
    most = next(n for n in range(2, 40) if why("m0", struck(crashes[:n]), peers) is not None)
    assert count * chance(most, usual) <= CHANCE
    assert most == 2 or count * chance(most - 1, usual) > CHANCE


@given(st.lists(st.sampled_from([f"m{number}" for number in range(9)]), unique=True))
def test_too_many_at_once_are_nobody(found: list[str]) -> None:
    assert few(found) == (found if len(found) <= MOST_AT_ONCE else [])


def test_tasks_of_one_array_that_crash_side_by_side_are_one_crash() -> None:
    tasks = [Strike(f"{task}.100.0", "9", "alice/a", "m0", "m0", 1.0, "e") for task in (9, 10, 11)]
    assert why("m0", tasks) is None
    again = Strike("10.130.1", "9", "alice/a", "m0", "m0", 2.0, "e")
    assert why("m0", [*tasks, again]) == "job 9 crashed on it 2 times and nowhere else"


def test_the_sentence_names_the_jobs() -> None:
    two = struck([("12", "alice/a", frozenset({"m0"})), ("7", "bob/b", frozenset({"m0"}))])
    assert why("m0", two) == "different jobs crashed on it: 7, 12"
    again = struck([("12", "alice/a", frozenset({"m0"}))] * 3)
    assert why("m0", again) == "job 12 crashed on it 3 times and nowhere else"
