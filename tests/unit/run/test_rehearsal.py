"""A trace judged by a policy: what would have been touched, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.clock import rfc3339
from remediator.errors import BadInput
from remediator.policy import rules
from remediator.run.recorded import recorded
from remediator.run.rehearsal import REPAIRED_S, TREATED_S, Touched, rehearse
from remediator.run.trace import Row, read
from remediator.settings import Settings
from tests.fakes.river import River

T0 = 1_800_000_000.0
HOUR = 3600.0
DEAD = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=python, GPU has fallen off the bus."
TREE = Settings.model_validate(
    {
        "cluster": {"name": "test"},
        "slurm": {"url": "http://127.0.0.1:6820"},
        "pools": {
            "training": {"node_selector": {"pool": "training"}, "stage": "full", "restart_failed_jobs": True}
        },
    }
)
JOB = {"at": T0, "type": "job", "id": 7, "user": "ann", "name": "train", "nodes": ["gpu-1", "gpu-2"]}


def node(number: int) -> dict[str, Any]:
    return {"at": T0, "type": "node", "node": f"gpu-{number}", "pool": "training"}


def line(at: float, text: str = DEAD, on: int = 1) -> dict[str, Any]:
    return {"at": at, "type": "line", "node": f"gpu-{on}", "line": text}


NODES = [node(number) for number in range(40)]


def rows(*told: dict[str, Any]) -> list[Row]:
    return read(json.dumps(one) for one in [*NODES, *told])


def judged(*told: dict[str, Any], tree: Settings = TREE) -> list[Touched]:
    return rehearse(rows(*told), rules.load(), tree)


def test_a_dead_gpu_touches_its_node_and_its_job_with_the_hours_since_its_start() -> None:
    (found,) = judged(JOB, line(T0 + HOUR))
    assert (found.node, found.does, found.jobs) == ("gpu-1", "replace", (7,))
    assert found.gpu_hours == 16.0


def test_a_node_that_was_replaced_is_back_after_a_day() -> None:
    again = judged(line(T0 + 60), line(T0 + 7200), line(T0 + 60 + REPAIRED_S + HOUR))
    assert [round(one.at - T0) for one in again] == [60, 60 + REPAIRED_S + HOUR]


def test_a_crash_without_evidence_restarts_the_job_and_touches_no_node() -> None:
    (found,) = judged(JOB, {"at": T0 + HOUR, "type": "job", "id": 7, "state": "FAILED", "code": 1})
    assert (found.node, found.does, found.jobs) == ("", "restart-job", (7,))


def test_what_a_limit_forbids_waits_until_it_may() -> None:
    """A tenth of 40 machines at once; the others once the first are done."""
    found = judged(JOB, *(line(T0 + 60 + number, on=number) for number in range(8)))
    assert [one.does for one in found] == ["replace"] * 8
    assert [one.at < T0 + TREATED_S for one in found] == [True] * 4 + [False] * 4


def test_what_a_pool_only_observes_is_held_and_ends_no_job() -> None:
    pool = TREE.pools["training"].model_copy(update={"stage": "observe"})
    (found,) = judged(JOB, line(T0 + 60), tree=TREE.model_copy(update={"pools": {"training": pool}}))
    assert (found.does, found.jobs, found.gpu_hours) == ("hold", (), 0.0)


@pytest.mark.parametrize(
    "told",
    [
        [line(T0 + 60, DEAD.replace("79", "45"))],
        [line(T0 + 60, "usb 1-1: new device")],
        [{"at": T0 + 60, "type": "alert", "alert": {
            "labels": {"alertname": "GpuXidByDcgm", "node": "gpu-1", "xid": "79", "witness": "dcgm-xid"},
            "startsAt": rfc3339(T0 + 60), "status": "firing"}}],
        [{"at": T0 + 60, "type": "host", "node": "gpu-1", "silent": ["agent"]}],
    ],
    ids=["follow-on", "no event", "one weak witness", "only for the bench"],
)  # fmt: skip
def test_what_the_service_would_not_act_on_touches_nothing(told: list[dict[str, Any]]) -> None:
    assert judged(*told) == []


EVENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["79", "64", "45", "31"]), st.floats(1.0, 2 * HOUR)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12)
@given(EVENTS, st.randoms(use_true_random=False))
def test_the_order_of_lines_and_their_repetition_do_not_matter(
    events: list[tuple[int, str, float]], random: Any
) -> None:
    told = [line(T0 + at, DEAD.replace("79", code), on) for on, code, at in events]
    shuffled = [*told, *told]
    random.shuffle(shuffled)

    def places(found: list[Touched]) -> set[tuple[str, float]]:
        return {(one.node, one.at) for one in found}

    assert places(judged(*shuffled)) == places(judged(*told))


def test_it_agrees_with_what_the_service_then_did(tmp_path: Path) -> None:
    """`policy plan --since`: the store's own rows, judged again."""
    river = River(tmp_path)
    river.submit_job()
    for seq, (name, code) in enumerate([("gpu-0", 79), ("gpu-1", 45), ("gpu-2", 31)]):
        river.xid(name, code, seq=seq)
    river.run()
    with river.store.read() as connection:
        found = rehearse(recorded(connection, 0.0), rules.load(), TREE)
        assert recorded(connection, river.clock.now() + 1) == []
    assert [(one.node, one.does) for one in found] == [("gpu-0", "replace")]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("nonsense", "line 2: row"),
        ('{"at": 1, "type": "wish"}', "line 2: row"),
        ('{"at": -1, "type": "person", "node": "gpu-1"}', "line 2: person.at"),
        ('{"at": 1, "type": "line", "node": "gpu-1"}', "line 2: line.line"),
        ('{"at": 1e99, "type": "line", "node": "gpu-1", "line": ""}', "line 2: line.at"),
    ],
)
def test_a_line_that_is_no_row_is_named(text: str, where: str) -> None:
    with pytest.raises(BadInput, match=where):
        read([json.dumps(node(1)), text])


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_bad_input(data: bytes) -> None:
    try:
        found = read(data.splitlines())
    except BadInput:
        return
    assert isinstance(found, list)


@pytest.mark.parametrize(
    ("fault", "witness", "does"),
    [
        ("gpu-hot", "", ["replace"]),
        ("ib-flapping", "own-counters", ["validate"]),
        ("ib-flapping", "node-exporter", []),
        ("ib-errors", "own-counters", []),
    ],
)
def test_an_exported_alert_that_nobody_can_be_asked_about_is_taken_for_true(
    fault: str, witness: str, does: list[str]
) -> None:
    """By its own witness all the same."""
    labels = {"alertname": "x", "node": "gpu-1", "fault": fault, "witness": witness, "device": "mlx5_0"}
    alert = {"labels": labels, "startsAt": rfc3339(T0 + HOUR), "status": "firing"}
    found = judged(JOB, {"at": T0 + HOUR + 30, "type": "alert", "alert": alert})
    assert [one.does for one in found] == does


@pytest.mark.parametrize(("lasts_s", "does"), [(300.0, "hold"), (900.0, "replace")])
def test_soft_heat_of_an_export_is_touched_only_if_it_lasts(lasts_s: float, does: str) -> None:
    began = T0 + HOUR
    labels = {"alertname": "x", "node": "gpu-1", "fault": "gpu-hot"}
    alert = {"labels": labels, "startsAt": rfc3339(began), "status": "firing"}
    over = alert | {"status": "resolved", "endsAt": rfc3339(began + lasts_s)}
    told = ((began, alert), (began + lasts_s, over))
    (found,) = judged(JOB, *({"at": at, "type": "alert", "alert": one} for at, one in told))
    assert found.does == does
