"""Whatever crashed where: one crash accuses nobody, and a job that crashes elsewhere accuses no machine."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.strikes import MOST_AT_ONCE, accusers, few, suspicion
from remediator.model.strike import Strike

MACHINES = ("m0", "m1", "m2", "m3")
crash = st.tuples(
    st.sampled_from(["11", "12", "13", "14"]),
    st.sampled_from(["alice/a", "alice/b", "bob/a"]),
    st.frozensets(st.sampled_from(MACHINES), min_size=1),
)


def struck(crashes: list[tuple[str, str, frozenset[str]]]) -> list[Strike]:
    """One run per crash; a job keeps the work of its first one."""
    works: dict[str, str] = {}
    return [
        Strike(f"{job}.{run}", job, works.setdefault(job, work), machine, machine, float(run), "e")
        for run, (job, work, machines) in enumerate(crashes)
        for machine in sorted(machines)
    ]


@given(st.lists(crash, max_size=8), st.sampled_from(MACHINES), st.randoms())
def test_order_does_not_matter(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str, random: Random
) -> None:
    strikes = struck(crashes)
    mixed = list(strikes)
    random.shuffle(mixed)
    assert suspicion(machine, mixed) == suspicion(machine, strikes)


@given(crash, st.sampled_from(MACHINES))
def test_one_crash_accuses_nobody(one: tuple[str, str, frozenset[str]], machine: str) -> None:
    assert suspicion(machine, struck([one])) is None


@given(st.lists(crash, max_size=8), st.sampled_from(MACHINES))
def test_a_suspect_had_two_runs_and_every_accuser_crashed_on_it_each_time(
    crashes: list[tuple[str, str, frozenset[str]]], machine: str
) -> None:
    strikes = struck(crashes)
    against = accusers(machine, strikes)
    if suspicion(machine, strikes) is not None:
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
    assert suspicion(machine, struck(crashes + elsewhere)) is None


@given(st.lists(st.frozensets(st.sampled_from(MACHINES), min_size=1), min_size=2, max_size=6))
def test_one_users_one_script_submitted_again_and_again_accuses_nobody(nodes: list[frozenset[str]]) -> None:
    strikes = struck([(str(20 + number), "alice/a", on) for number, on in enumerate(nodes)])
    assert all(suspicion(machine, strikes) is None for machine in MACHINES)


@given(st.sampled_from(MACHINES), st.lists(crash, max_size=5))
def test_two_different_jobs_on_one_machine_always_make_it_suspect(
    machine: str, others: list[tuple[str, str, frozenset[str]]]
) -> None:
    two = [("21", "alice/x", frozenset({machine})), ("22", "bob/y", frozenset({machine}))]
    assert suspicion(machine, struck(two + others)) is not None


@given(st.lists(st.sampled_from([f"m{number}" for number in range(9)]), unique=True))
def test_too_many_at_once_are_nobody(found: list[str]) -> None:
    assert few(found) == (found if len(found) <= MOST_AT_ONCE else [])


def test_tasks_of_one_array_that_crash_side_by_side_are_one_crash() -> None:
    tasks = [Strike(f"{task}.100.0", "9", "alice/a", "m0", "m0", 1.0, "e") for task in (9, 10, 11)]
    assert suspicion("m0", tasks) is None
    again = Strike("10.130.1", "9", "alice/a", "m0", "m0", 2.0, "e")
    assert suspicion("m0", [*tasks, again]) == "job 9 crashed on it 2 times and nowhere else"


def test_the_sentence_names_the_jobs() -> None:
    two = struck([("12", "alice/a", frozenset({"m0"})), ("7", "bob/b", frozenset({"m0"}))])
    assert suspicion("m0", two) == "different jobs crashed on it: 7, 12"
    again = struck([("12", "alice/a", frozenset({"m0"}))] * 3)
    assert suspicion("m0", again) == "job 12 crashed on it 3 times and nowhere else"
