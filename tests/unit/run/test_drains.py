"""Drains of others in Slurm: which become incidents, which are recorded; that nothing is overwritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remediator.errors import Retry
from remediator.kube.nodes import NodeView
from remediator.model.incident import Incident
from remediator.run.drains import Drains, LastList
from remediator.settings import Pool
from remediator.store import outbox, schema
from slurm_bridge.model import SlurmNode
from slurm_bridge.reasons import drained_by
from tests.fakes.river import River

WORKER = "w-gpu-0"
NHC = "NHC: check_nv_healthmon: GPU 3 has failed rows"


class Site:
    """A cluster in virtual time with somebody who looks at its drains every 5 s."""

    def __init__(self, folder: Path, stage: str = "full") -> None:
        self.river = River(folder)
        pool = Pool(node_selector={"pool": "training"}, stage=stage)  # type: ignore[arg-type]
        self.river.pools = {"training": pool}
        self.river.begin()
        self.life()
        self.settle(10.0)

    def life(self) -> None:
        """The controller starts anew."""
        river = self.river
        self.look = Drains(
            LastList(river.slurm, river.clock, 0.0),
            river.inventory(),
            lambda: [river.kube.view(name) for name in river.names],
            river.store,
            river._submit,
            river.clock,
        )

    def drain(self, reason: str, worker: str = WORKER, user: str = "root") -> None:
        """Somebody drains a worker."""
        self.river.slurm.drain(worker, reason, deadline=5.0)
        self.change(worker, reason_user=user)

    def change(self, worker: str, **fields: object) -> None:
        """The node's record shows something else."""
        nodes = self.river.slurm._nodes
        nodes[worker] = replace(nodes[worker], **fields)  # type: ignore[arg-type]

    def settle(self, seconds: float = 20.0) -> None:
        """Looks and turns."""
        until = self.river.clock.now() + seconds
        while self.river.clock.now() < until:
            self.look.look()
            self.river.turn()

    def node(self, worker: str = WORKER) -> SlurmNode:
        """The worker as Slurm shows it."""
        found = self.river.slurm.node(worker, deadline=5.0)
        assert found is not None
        return found

    def incidents(self) -> list[Incident]:
        """All incidents, newest first."""
        return self.river.all_incidents()

    def pages(self) -> str:
        """All that people were told."""
        with self.river.store.read() as connection:
            return "\n".join(found.message.text for found in outbox.due(connection, 4e9))

    def verdicts(self) -> list[str]:
        """What became of each signal."""
        with self.river.store.read() as connection:
            query = schema.signal.select().with_only_columns(schema.signal.c.verdict)
            return [str(verdict) for verdict in connection.execute(query).scalars()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


BY_A_CHECK = {
    NHC: "slurm-health-check",
    "gres/gpu count reported lower than configured (7 < 8)": "slurm-gres-count",
    "Kill task failed": "slurm-kill-failed",
    "Prolog error": "slurm-prolog-failed",
    "Epilog error": "slurm-prolog-failed",
}


@pytest.mark.parametrize(("reason", "rule"), BY_A_CHECK.items(), ids=BY_A_CHECK)
def test_a_drain_that_speaks_of_the_machine_is_an_incident_that_quotes_it(
    tmp_path: Path, reason: str, rule: str
) -> None:
    """By default T1 is only observed."""
    site = Site(tmp_path, "observe")
    site.drain(reason)
    site.settle()
    (incident,) = site.incidents()
    assert (incident.rule, incident.tier, incident.state, incident.node) == (rule, "T1", "held", "gpu-0")
    assert repr(reason) in incident.sentence
    assert site.node().reason == reason


NO_INCIDENT = {
    "DIMM swap ticket 4711": "a person or an unknown tool",
    "k8s: Pod is not ready": "SUNK",
    "slurm-operator: Pod (slurm/w) was cordoned": "slurm-operator",
    "slurm-bridge: pod default/x": "slurm-bridge",
    "[compute_maintenance] node reboot process": "Soperator",
    "[user_problem] disk full: job 7": "Soperator",
    "slurm-operator: [J] [NVSentinel] GPU fell off": "NVSentinel",
    "Action:Replace": "HyperPod",
    "Not responding": "Slurm",
    "Low RealMemory (reported:1000 < 100.00% of configured:2000)": "Slurm",
    "batch job complete failure": "Slurm",
    "Node unexpectedly rebooted": "Slurm",
    "Reboot ASAP": "Slurm",
    "": "a person",
}


@pytest.mark.parametrize(("reason", "author"), NO_INCIDENT.items(), ids=lambda value: value or "empty")
def test_any_other_drain_is_recorded_and_its_text_and_state_stay(
    site: Site, reason: str, author: str
) -> None:
    site.drain(reason or "x")
    site.change(WORKER, reason=reason)
    before, writes = site.node(), len(site.river.slurm.writes)
    site.settle()
    assert site.incidents() == []
    assert (site.node(), len(site.river.slurm.writes)) == (before, writes)
    (told,) = [verdict for verdict in site.verdicts() if WORKER in verdict]
    assert told.endswith("text and state stay: recorded")
    assert author in told


def test_a_health_checks_own_drain_is_held_with_its_text_in_a_pool_that_may_act(site: Site) -> None:
    site.drain(NHC)
    before = site.node()
    site.settle()
    (incident,) = site.incidents()
    assert (incident.plan, incident.state) == ("validate", "held")
    assert f"has somebody else's reason {NHC!r}" in site.pages()
    assert site.node() == before


def test_what_slurm_wrote_is_taken_over_tested_and_given_back(site: Site) -> None:
    site.drain("Kill task failed")
    site.settle(120.0)
    assert not site.node().is_drain
    assert [(found.plan, found.state) for found in site.incidents()] == [
        ("give-back", "closed"),
        ("validate", "closed"),
    ]


def test_a_drain_that_is_lifted_ends_the_incident_that_waits_at_the_door_for_it(tmp_path: Path) -> None:
    site = Site(tmp_path, "observe")
    site.drain(NHC)
    site.settle()
    site.river.slurm.resume(WORKER, deadline=5.0)
    site.settle()
    (incident,) = site.incidents()
    assert incident.state == "closed"
    site.drain(NHC)
    site.settle()
    assert [found.state for found in site.incidents()] == ["held", "closed"]


def test_a_new_life_of_the_service_replays_no_drain(tmp_path: Path) -> None:
    site = Site(tmp_path, "observe")
    site.drain(NHC)
    site.settle()
    before = len(site.verdicts())
    for _ in range(3):
        site.river.begin()
        site.life()
        site.settle(30.0)
    assert len(site.verdicts()) == before
    assert len(site.incidents()) == 1


def test_a_drain_that_is_lifted_while_nobody_looks_ends_its_incident_too(tmp_path: Path) -> None:
    site = Site(tmp_path, "observe")
    site.drain(NHC)
    site.settle()
    site.river.slurm.resume(WORKER, deadline=5.0)
    site.river.begin()
    site.life()
    site.settle()
    assert [found.state for found in site.incidents()] == ["closed"]


OLD = {
    "before the first look of the store": {"reason_at": 1.0},
    "before the machine's last start": {"boot_time": 4e9},
    "without a time": {"reason_at": None},
    "under planned maintenance": {"flags": frozenset({"DRAIN", "MAINTENANCE"})},
}


@pytest.mark.parametrize("fields", OLD.values(), ids=OLD)
def test_a_drain_that_is_old_or_planned_is_only_recorded(site: Site, fields: dict[str, object]) -> None:
    site.drain(NHC)
    site.change(WORKER, **fields)
    site.settle()
    assert site.incidents() == []
    assert site.node().reason == NHC


def test_our_own_drains_and_machines_without_power_are_no_news(site: Site) -> None:
    site.drain("remediator: i1 XID 79")
    site.drain(NHC, "w-gpu-1")
    site.change("w-gpu-1", flags=frozenset({"DRAIN", "POWERED_DOWN"}))
    before = len(site.verdicts())
    site.settle()
    assert len(site.verdicts()) == before


def test_a_worker_on_no_node_of_a_pool_is_nobodys_business(site: Site) -> None:
    def nowhere() -> list[NodeView]:
        return []

    site.look._nodes = nowhere
    site.drain(NHC)
    site.settle()
    assert site.incidents() == []


def test_the_list_that_another_has_read_is_not_read_again_while_it_is_fresh(site: Site) -> None:
    asked: list[str] = []
    site.river.slurm.before = lambda op, _target: asked.append(op)
    listed = LastList(site.river.slurm, site.river.clock, 45.0)
    listed.keep(())
    assert listed.nodes() == ()
    assert asked == []
    site.river.clock.advance(46.0)
    assert len(listed.nodes()) == 4
    assert asked == ["nodes"]
    site.river.slurm.is_up = False
    site.river.clock.advance(46.0)
    with pytest.raises(Retry):
        listed.nodes()


def test_words_that_only_resemble_slurms_are_a_persons() -> None:
    for reason in (
        "Low priority work by bob",
        "kill task failed",
        "a Prolog error",
        "reboot me",
        "NHC down?",
    ):
        assert drained_by(reason).means == "person"
