"""What cannot be read is never safe, and what failed is never written down as done: O10, O28."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.errors import GiveUp, Retry
from remediator.kube.spare import SpareKeys
from tests.cases.helpers import settle
from tests.fakes.river import River

LEFT = {"ns1": "infer-0", "ns2": "db-1"}


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def refusing(error: Exception) -> Callable[[River], None]:
    def arrange(river: River) -> None:
        def before(op: str, _target: str) -> None:
            if op in {"node", "jobs"}:
                raise error

        river.slurm.before = before

    return arrange


def forgotten(river: River) -> None:
    """slurmctld answers, with errors and without the node."""
    del river.slurm._nodes["w-gpu-0"]


ANSWERS: dict[str, Callable[[River], None]] = {
    "timeout": refusing(Retry("no answer within 5 s")),
    "HTTP 500": refusing(Retry("HTTP 500")),
    "RPC error": refusing(GiveUp("slurm_load_node: Unable to contact slurm controller")),
    "no such node": forgotten,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_answer_about_a_node_is_never_an_empty_node(river: River, answer: str) -> None:
    """O10 (1): nothing is cordoned, evicted, deleted or claimed. An empty list of states is no answer either:
    tests/unit/slurm/test_rest_reads.py.
    """
    job = river.submit_job()
    ANSWERS[answer](river)
    river.xid("gpu-0")
    settle(river, 45.0)
    river.clock.advance(600.0)
    settle(river, 15.0)
    assert river.kube.writes == []
    assert river.worker_node("w-gpu-0") == "gpu-0"
    assert SpareKeys().spare in {taint.key for taint in river.kube.view("spare-0").taints}
    assert river.job(job).restart_count == 0
    assert [one.state for one in river.open_incidents()] in (["open"], ["held"])


@pytest.mark.parametrize("restart", [False, True])
def test_a_drain_that_fails_is_never_recorded_as_drained(river: River, restart: bool) -> None:
    """O28 (1), (2): two pods that a budget keeps; the record says so after two hours and a restart."""
    for namespace, name in LEFT.items():
        river.kube.add_pod(namespace, name, "gpu-0", gpus=1)
        river.kube.protect_pod(namespace, name, f"{name}-pdb")
    river.xid("gpu-0")
    settle(river, 150.0)
    if restart:
        river.begin()
    river.clock.advance(7200.0)
    settle(river, 15.0)
    (incident,) = river.open_incidents()
    assert incident.state == "held"
    steps = {row.name: row for row in river.steps(incident.id)}
    assert steps["evict-pods"].state == "held"
    assert steps["detach-node"].acted_at is None
    with river.store.read() as connection:
        assert chain.verify(connection).ok
        records = list(chain.read(connection))
    told = " ".join(record["why"] for record in records if record["step"] == "evict-pods")
    assert all(name in told for name in LEFT.values())
    ends = [record for record in records if record["step"] == "evict-pods" and record["outcome"] == "done"]
    assert ends == []
