"""Budgets over the whole river: one debit per incident and budget through every crash, and none is lost."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from remediator.audit import chain
from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.policy.vetoes import NO_REPLACE
from remediator.settings import Budgets, Limit
from remediator.settings.tree import KnownBad
from remediator.store import schema, steps
from remediator.workflow.ledger import GUARDED
from tests.crash.test_river import MOMENTS, assert_moved_once
from tests.fakes.river import River

ONE = Limit(percent=0, per_hour=None)
ONE_AT_ONCE = Budgets(drain_t0=KnownBad(at_least=3), release=ONE, evict=ONE, replace=ONE)


def one_an_hour(budget: str) -> Budgets:
    return ONE_AT_ONCE.model_copy(update={budget: Limit(at_least=3, per_hour=1)})


def debits(river: River) -> list[tuple[str, str, str]]:
    """Which incident's node drew on which budget, for which step."""
    query = (
        sa.select(schema.incident.c.node, schema.debit.c.budget, schema.debit.c.step)
        .join(schema.incident, schema.incident.c.id == schema.debit.c.incident)
        .order_by(schema.debit.c.at, schema.incident.c.node)
    )
    with river.store.read() as connection:
        return [(row.node, row.budget, row.step) for row in connection.execute(query)]


def incident_on(river: River, node: str) -> Incident:
    (found,) = [incident for incident in river.all_incidents() if incident.node == node]
    return found


def rows(river: River, node: str, name: str) -> list[StepRow]:
    with river.store.read() as connection:
        found = steps.of_incident(connection, incident_on(river, node).id)
    return [row for row in found if row.name == name]


def drawn(river: River, budget: str) -> list[str]:
    return [node for node, of, _ in debits(river) if of == budget]


WHOLE_PLAN = [
    ("gpu-0", "drain_t0", "admit"),
    ("gpu-0", "evict", "evict-pods"),
    ("gpu-0", "release", "hold-place"),
    ("gpu-0", "replace", "claim-spare"),
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_debits_each_budget_once(tmp_path: Path, moment: str) -> None:
    river = River(tmp_path, budgets=ONE_AT_ONCE)
    job = river.submit_job()
    crashed = river.crash_at(moment)
    river.xid("gpu-0")
    river.run_through_crashes()
    assert crashed == [moment]
    assert_moved_once(river, job)
    assert sorted(debits(river)) == WHOLE_PLAN


@pytest.mark.parametrize(("first", "second"), Random(11).sample(list(product(MOMENTS, MOMENTS)), 30))
def test_two_incidents_go_through_one_at_a_time_whatever_crashes(
    tmp_path: Path, first: str, second: str
) -> None:
    """Each has its jobs; nothing is drawn twice, nothing is kept, and the second goes on by itself."""
    river = River(tmp_path, budgets=ONE_AT_ONCE, spares=2)
    jobs = [river.submit_job(width=1), river.submit_job(width=1)]
    river.crash_at(first, second)
    river.xid("gpu-0")
    river.xid("gpu-1")
    river.run_through_crashes(600.0)
    assert [river.job(job).restart_count for job in jobs] == [1, 1]
    assert [incident.state for incident in river.all_incidents()] == ["closed", "closed"]
    assert len(debits(river)) == len(set(debits(river))) == 8


@pytest.mark.parametrize("budget", ["release", "evict", "replace"])
def test_never_more_nodes_at_once_than_the_budget_has(tmp_path: Path, budget: str) -> None:
    guarded = {"release": "release-jobs", "evict": "evict-pods", "replace": "claim-spare"}[budget]
    last = {"release": "prove-resume", "evict": "evict-pods", "replace": "close"}[budget]
    river = River(tmp_path, budgets=ONE_AT_ONCE, spares=2)
    for _ in range(2):
        river.submit_job(width=1)
    river.xid("gpu-0")
    river.xid("gpu-1")
    under = 0
    for _ in range(400):
        river.turn()
        nodes = [one.node for one in river.open_incidents()]
        at_work = [
            node
            for node in nodes
            if any(row.acted_at for row in rows(river, node, guarded))
            and any(row.state != "done" for row in rows(river, node, last))
        ]
        under = max(under, len(at_work))
    assert river.open_incidents() == []
    assert under == 1


def test_a_known_bad_node_is_drained_and_fenced_at_once_while_its_jobs_wait(tmp_path: Path) -> None:
    """T0's drain draws on a budget of its own: the node takes no jobs whatever the others are spent on."""
    river = River(tmp_path, budgets=one_an_hour("release"))
    jobs = [river.submit_job(width=1), river.submit_job(width=1)]
    river.xid("gpu-0")
    river.run(60.0)
    river.xid("gpu-1")
    river.run(60.0)
    assert river.slurm.count("drain", "w-gpu-1") == 1
    assert river.kube.view("gpu-1").unschedulable
    assert [river.job(job).restart_count for job in jobs] == [1, 0]
    held = incident_on(river, "gpu-1")
    assert held.state == "held"
    (row,) = rows(river, "gpu-1", "release-jobs")
    assert row.state == "held"
    assert "budget release of pool training is used up: 1 an hour; goes on at 20" in row.sentence


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("budget", ["release", "evict", "replace"])
def test_what_waits_for_the_hour_goes_on_by_itself(tmp_path: Path, budget: str, restarts: bool) -> None:
    river = River(tmp_path, budgets=one_an_hour(budget), spares=2)
    jobs = [river.submit_job(width=1), river.submit_job(width=1)]
    river.xid("gpu-0")
    river.run(60.0)
    river.xid("gpu-1")
    river.run(120.0)
    assert drawn(river, budget) == ["gpu-0"]
    assert incident_on(river, "gpu-1").state == "held"
    river.clock.advance(3600.0)
    if restarts:
        river.begin()
    river.run(120.0)
    assert drawn(river, budget) == ["gpu-0", "gpu-1"]
    assert incident_on(river, "gpu-1").state == "closed"
    assert [river.job(job).restart_count for job in jobs] == [1, 1]
    with river.store.read() as connection:
        records = list(chain.read(connection, incident_on(river, "gpu-1").id))
    actions = [record["action"] for record in records]
    assert actions.count("incident-held") == actions.count("incident-resumed") == 1
    assert not GUARDED.keys() & {record["step"] for record in records if record["action"] == "overdue"}


def test_waiting_for_a_budget_reads_and_writes_nothing_outside(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=one_an_hour("evict"), spares=2)
    river.xid("gpu-0")
    river.run(60.0)
    river.xid("gpu-1")
    river.run(60.0)
    with river.store.read() as connection:
        before = len(list(chain.read(connection)))
    calls = [call for _ in range(30) for call in river.turn()]
    assert calls == []
    with river.store.read() as connection:
        assert len(list(chain.read(connection))) == before


def test_a_node_that_may_not_be_replaced_keeps_no_other_from_it(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=ONE_AT_ONCE, spares=2)
    river.kube.add_pod("team", "keep", "gpu-0", labels={NO_REPLACE: "true"})
    river.xid("gpu-0")
    river.run(30.0)
    river.xid("gpu-1")
    river.run(120.0)
    assert [incident_on(river, node).state for node in ("gpu-0", "gpu-1")] == ["held", "closed"]
    river.kube.remove_pod("team", "keep")
    river.run(120.0)
    assert incident_on(river, "gpu-0").state == "closed"
    assert drawn(river, "replace") == ["gpu-0", "gpu-1"]


def test_a_pool_that_only_drains_draws_on_no_other_budget(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=ONE_AT_ONCE, stage="drain-only")
    for node in ("gpu-0", "gpu-1"):
        river.xid(node)
    river.run(30.0)
    assert [budget for _, budget, _ in debits(river)] == ["drain_t0", "drain_t0"]


def test_the_intent_names_the_budget_it_was_debited_to(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=ONE_AT_ONCE)
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    with river.store.read() as connection:
        intents = [record for record in chain.read(connection) if record["action"] == "intent"]
    named = {record["step"]: record["detail"].get("budget") for record in intents}
    assert named["release-jobs"] == "release"
    assert named["evict-pods"] == "evict"
    assert named["claim-spare"] == "replace"
    assert named["fence-node"] is None
