"""Whatever stands in a node's conditions: nothing raises, nothing acts alone, and nothing acts twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.evidence import judge, witness_of
from remediator.kube.conditions import of_node
from remediator.model.incident import Tier
from remediator.signals.conditions import Seen, Subject, see
from remediator.signals.reporters import Row, Table, load

TABLE = load()
NOW = 1_000_000.0
texts = st.text(max_size=60) | st.sampled_from(
    [
        "ErrorCode:79 PCI:0000:18:00 x;ErrorCode:48 ;",
        "XID-79",
        "NvidiaXID79Error",
        "Xid (PCI:0000:18:00): 79, x",
    ]
)
moments = st.sampled_from(["1970-01-12T13:46:30Z", "1970-01-12T13:45:00+00:00", "yesterday", ""])
types, statuses = st.sampled_from([row.type for row in TABLE.rows]), st.sampled_from(["True", "False"])
said: dict[str, st.SearchStrategy[object]] = {
    "reason": texts,
    "message": texts | st.integers(),
    "lastTransitionTime": moments | st.none(),
}
rows = st.fixed_dictionaries(
    {}, optional={"type": types | texts, "status": statuses | st.just("Unknown") | texts, **said}
)
plain = st.fixed_dictionaries({"type": types, "status": statuses}, optional=said)


def subject(found: list[dict[str, object]], boot: str = "boot") -> Subject:
    return Subject("uid", "gpu-0", boot, None, of_node(found))


@given(st.lists(rows, max_size=6), st.lists(rows, max_size=6), st.none() | st.floats(0, NOW))
def test_no_set_of_conditions_raises_and_one_way_of_measuring_never_acts(
    first: list[dict[str, object]], second: list[dict[str, object]], began: float | None
) -> None:
    before = see(subject(first), None, TABLE, began, NOW)
    seen = see(subject(second), before, TABLE, began, NOW)
    signals = [*before.faults.values(), *seen.faults.values()]
    tiers: tuple[Tier, ...] = ("T0", "T1", "T2", "T3")
    for signal in signals:
        alike = [one for one in signals if witness_of(one) in {witness_of(signal), "none"}]
        assert not any(judge(signal, alike, "boot", tier, NOW).enough for tier in tiers)


@given(st.lists(plain, max_size=6), st.lists(st.lists(rows, max_size=4), max_size=4))
def test_the_same_conditions_are_the_same_signals_whatever_stood_there_meanwhile(
    found: list[dict[str, object]], meanwhile: list[list[dict[str, object]]]
) -> None:
    """What says neither True nor False keeps what stood there before: the first ones are plain."""
    seen: Seen = see(subject(found), Seen(), TABLE, 0.0, NOW)
    later = seen
    for other in meanwhile:
        later = see(subject(other), later, TABLE, 0.0, NOW)
    again = see(subject(found), later, TABLE, 0.0, NOW)
    assert {one.dedupe for one in again.faults.values()} == {one.dedupe for one in seen.faults.values()}


@given(st.sampled_from([row for row in TABLE.rows if row.tier != "record"]))
def test_only_a_row_that_says_so_acts_alone(row: Row) -> None:
    for alone in ("yes", "no"):
        table = Table([row.model_copy(update={"alone": alone})])
        bad: dict[str, object] = {
            "type": row.type,
            "status": row.bad,
            "reason": row.reason.replace("*", "79"),
            "message": "ErrorCode:79 XID-79 Xid (PCI:0000:18:00): 79, x",
            "lastTransitionTime": "1970-01-12T13:46:30Z",
        }
        for signal in see(subject([bad]), Seen(), table, 0.0, NOW).faults.values():
            assert judge(signal, [], "boot", "T0", NOW).enough is (alone == "yes")
