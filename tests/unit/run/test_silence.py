"""The look at silent machines, over fake servers: what it concludes, and when it concludes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.model.signal import SILENT, Signal
from remediator.run.heartbeats import Heartbeats
from remediator.run.outage import SETTLE_S
from remediator.run.silence import STALE_S, Silence
from remediator.signals.lost_runs import LOST_RUN
from remediator.signals.silence import DOUBT, DOUBT_S, MANY, QUIET_S
from remediator.store import outbox
from tests.crash.test_outage import writes
from tests.fakes.river import NODES, River

SICK = "gpu-0"
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Site:
    """Four machines with their agents, and somebody who looks at them."""

    def __init__(self, folder: Path, *, holds: bool = False) -> None:
        self.river = River(folder)
        if holds:
            pool = self.river.pools["training"].model_copy(update={"hold_until_fenced": True})
            self.river.pools = {"training": pool}
        self.heartbeats = Heartbeats(self.river.clock)
        self.age = 0.0
        self.told: list[Signal] = []
        river = self.river
        self.silence = Silence(
            river.slurm,
            self.heartbeats,
            river.inventory(),
            lambda: [river.kube.view(name) for name in river.names],
            lambda: self.age,
            self._submit,
            river.outage,
            river.clock,
            30.0,
        )
        self.beat(*NODES)

    def _submit(self, found: object) -> None:
        assert isinstance(found, list)
        self.told += found
        self.river._submit(found)

    def beat(self, *nodes: str) -> None:
        for node in nodes:
            self.heartbeats.heard(node, self.river.kube.view(node).boot_id, 0.0)

    def hush(self, *nodes: str) -> None:
        """Their slurmds do not answer."""
        for node in nodes:
            seen = self.river.slurm.node(f"w-{node}", deadline=5.0)
            assert seen is not None
            self.river.slurm.mark(f"w-{node}", flags=seen.flags | {"NOT_RESPONDING"})

    def pass_by(self, seconds: float, heard: tuple[str, ...]) -> None:
        """Time passes with a look every 5 s; only `heard` push."""
        for _ in range(int(seconds // 5) + 1):
            self.river.clock.advance(5.0)
            self.beat(*heard)
            self.silence.look()

    def live(self, seconds: float) -> None:
        """Time passes with a look before each turn, and all agents push."""
        until = self.river.clock.now() + seconds
        while self.river.clock.now() < until:
            self.beat(*NODES)
            self.silence.look()
            self.river.turn()

    def kinds(self) -> set[str]:
        return {signal.kind for signal in self.told}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


OTHERS = NODES[1:]


def test_a_machine_that_neither_witness_hears_is_an_incident(site: Site) -> None:
    job = site.river.submit_job()
    site.hush(SICK)
    site.river.kube.kill_kubelet(SICK)
    site.river.kube.outside(SICK, "lost", NOT_READY)
    site.pass_by(QUIET_S, OTHERS)
    assert site.kinds() == {SILENT}
    site.river.run(20.0)
    (incident,) = site.river.all_incidents()
    assert (incident.node, incident.rule, incident.tier) == (SICK, "silent-node", "T0")
    assert site.river.slurm.count("set_down", "w-gpu-0") == 1
    assert site.river.job(job).state == "PENDING"


def test_one_witness_writes_nothing_and_pages_once(site: Site) -> None:
    site.pass_by(DOUBT_S + 60, OTHERS)
    assert site.kinds() == {DOUBT}
    site.river.run(5.0)
    assert site.river.all_incidents() == []
    assert site.river.slurm.writes == []
    assert site.river.kube.writes == []
    with site.river.store.read() as connection:
        messages = [found.message for found in outbox.due(connection, site.river.clock.now())]
    assert [(message.audience, message.urgency) for message in messages] == [("operators", "page")]


def test_a_silent_slurmd_under_an_agent_that_is_heard_only_pages(site: Site) -> None:
    site.hush(SICK)
    site.pass_by(DOUBT_S + 10, NODES)
    assert site.kinds() == {DOUBT}


@pytest.mark.parametrize("holds", [True, False])
def test_a_run_that_slurm_took_from_a_silent_node_is_told_where_the_pool_holds_it(
    tmp_path: Path, holds: bool
) -> None:
    site = Site(tmp_path, holds=holds)
    site.river.submit_job()
    site.hush(SICK)
    site.pass_by(5.0, NODES)
    assert site.kinds() == set()
    site.river.slurm._take_down("w-gpu-0", "Not responding", "slurm")
    site.pass_by(5.0, NODES)
    assert site.kinds() == ({LOST_RUN} if holds else set())


def test_a_controller_that_has_just_started_accuses_nobody(site: Site) -> None:
    site.hush(SICK)
    site.heartbeats._last.clear()
    site.pass_by(100.0, OTHERS)
    assert site.told == []
    site.pass_by(60.0, OTHERS)
    assert site.kinds() == {DOUBT}


def test_a_door_that_nobody_reaches_is_one_page(site: Site) -> None:
    site.hush(SICK)
    site.pass_by(100.0, ())
    assert site.kinds() == {MANY}
    site.river.run(5.0)
    assert site.river.slurm.writes == []
    assert site.river.kube.writes == []


def test_all_kubelets_gone_while_slurm_hears_them_is_one_page(site: Site) -> None:
    for node in NODES:
        site.river.kube.outside(node, "lost", NOT_READY)
    site.pass_by(60.0, NODES)
    assert site.kinds() == {MANY}
    site.river.run(5.0)
    assert site.river.slurm.writes == []
    assert not [write for write in site.river.kube.writes if write.actor == "remediator"]


def test_an_open_incident_stands_still_while_many_kubelets_are_gone_and_then_goes_on(site: Site) -> None:
    """The job asks nobody for its restart meanwhile: Slurm starts it after its own delay."""
    river = site.river
    job = river.submit_job(save=3.0)
    river.xid(SICK)
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    for node in river.names:
        river.kube.outside(node, "lost", NOT_READY)
    before = writes(river)
    site.live(30.0)
    river.clock.advance(300.0)
    site.live(10.0)
    assert writes(river) == before
    (incident,) = river.open_incidents()
    assert [row.name for row in river.steps(incident.id) if "4 of 4 kubelets" in row.sentence]
    for node in river.names:
        river.kube.outside(node, "back", READY)
    site.live(SETTLE_S - 10)
    assert writes(river) == before
    site.live(100.0)
    assert [found.state for found in river.all_incidents()] == ["closed"]
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)


def test_a_watch_that_is_silent_stops_all_writing(site: Site) -> None:
    site.age = STALE_S + 1
    site.river.xid(SICK)
    site.live(30.0)
    assert writes(site.river) == 0
    site.age = 0.0
    site.live(SETTLE_S + 10)
    assert site.river.slurm.count("drain", "w-gpu-0") == 1


def test_nothing_is_concluded_from_an_old_watch_or_without_slurm(site: Site) -> None:
    site.hush(SICK)
    site.age = STALE_S + 1
    site.pass_by(100.0, OTHERS)
    site.age, site.river.slurm.is_up = 0.0, False
    site.pass_by(100.0, OTHERS)
    assert site.told == []


def test_a_machine_in_another_boot_is_left_alone(site: Site) -> None:
    site.hush(SICK)
    site.river.kube.reboot(SICK, "boot-after-power-on")
    site.pass_by(100.0, OTHERS)
    assert site.told == []


@pytest.mark.parametrize("how", ["cordon", "drain"])
def test_a_machine_that_somebody_works_on_may_be_silent(site: Site, how: str) -> None:
    site.hush(SICK)
    if how == "cordon":
        site.river.kube.cordon(SICK)
    else:
        site.river.slurm.drain("w-gpu-0", "admin: new fans", deadline=5.0)
    site.pass_by(200.0, OTHERS)
    assert site.told == []
