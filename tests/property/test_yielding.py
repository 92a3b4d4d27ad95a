"""What is taken back is what was set, on the side nobody touched, whatever had been done by then."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from remediator.model.plan import StepRow, StepState
from remediator.workflow.steps import STEPS
from remediator.workflow.yielding import LATE_S, way_back

NOW = 1_800_000_000.0
NAMES = ["admit", "drain-slurm", "fence-node", "survey", "force-down", "evict-pods", "detach-node"]
OF_RUN = ["hold-place", "release-jobs", "hold-jobs", "start-jobs"]
STATES: list[StepState] = ["pending", "running", "waiting", "held", "done"]
places = st.tuples(st.sampled_from(NAMES), st.just("")) | st.tuples(
    st.sampled_from(OF_RUN), st.sampled_from(["7.1.0", "8.1.0"])
)
acted = st.none() | st.floats(NOW - 100, NOW)
books = st.dictionaries(places, st.tuples(st.sampled_from(STATES), acted), max_size=13)


def rows_of(book: dict[tuple[str, str], tuple[StepState, float | None]]) -> list[StepRow]:
    return [
        StepRow("i1", name, subject, "main", 1, state, attempt=int(at is not None), acted_at=at)
        for (name, subject), (state, at) in book.items()
    ]


def is_acted(rows: list[StepRow], name: str, subject: str = "") -> bool:
    return any((row.name, row.subject) == (name, subject) and row.acted_at is not None for row in rows)


@given(book=books, side=st.sampled_from(["slurm", "kubernetes"]), claimed=st.booleans())
def test_only_what_may_have_been_set_is_taken_back_and_never_on_the_side_a_person_touched(
    book: dict[tuple[str, str], tuple[StepState, float | None]],
    side: Literal["slurm", "kubernetes"],
    claimed: bool,
) -> None:
    rows = rows_of(book)
    back = {(row.name, row.subject): row for row in way_back("i1", side, rows, claimed=claimed, now=NOW)}
    assert (("undo-fence", "") in back) == (side == "slurm" and is_acted(rows, "fence-node"))
    assert (("undo-drain", "") in back) == (side == "kubernetes" and is_acted(rows, "drain-slurm"))
    for run in ("7.1.0", "8.1.0"):
        assert (("undo-place", run) in back) == is_acted(rows, "hold-place", run)
        let_go = book.get(("start-jobs", run), ("waiting", None))[0] == "done"
        assert (("undo-hold", run) in back) == (is_acted(rows, "hold-jobs", run) and not let_go)
    assert (("undo-claim", "") in back) == claimed
    assert {name for name, _ in back} <= set(STEPS)


@given(book=books, side=st.sampled_from(["slurm", "kubernetes"]))
def test_the_way_back_ends_after_all_its_steps_and_each_looks_before_it_acts(
    book: dict[tuple[str, str], tuple[StepState, float | None]], side: Literal["slurm", "kubernetes"]
) -> None:
    *undos, last = way_back("i1", side, rows_of(book), claimed=True, now=NOW)
    assert last.name == "yield"
    assert all(row.ordinal < last.ordinal for row in undos)
    assert {row.state for row in undos} == {"waiting"}


@given(
    at=st.floats(NOW - 100, NOW),
    state=st.sampled_from(STATES),
    step=st.sampled_from([("drain-slurm", "kubernetes"), ("fence-node", "slurm")]),
)
def test_what_may_still_land_late_is_waited_for(
    at: float, state: StepState, step: tuple[str, Literal["slurm", "kubernetes"]]
) -> None:
    name, side = step
    rows = rows_of({(name, ""): (state, at)})
    undo, _ = way_back("i1", side, rows, claimed=False, now=NOW)
    assert undo.due_at == (NOW if state == "done" else max(NOW, at + LATE_S))
