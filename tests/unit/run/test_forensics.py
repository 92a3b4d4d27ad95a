"""A crash is laid over its nodes' readings in Prometheus; the answer is recorded, and nothing comes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.audit import chain
from remediator.cli.incidents import story_of
from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.incident import RESTART_JOB, Incident
from remediator.model.job_end import JobEnd
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.policy import rules
from remediator.run.forensics import GIVE_UP_S, MOST, SETTLE_S, Forensics
from remediator.signals.crash_readings import readings
from remediator.signals.forensics import FORENSICS, forensic
from remediator.signals.job_ends import JOB_ENDED
from remediator.store import incidents, signals
from tests.fakes.prometheus import FakePrometheus
from tests.unit.run.deciding import Deciding

NODES = [f"gpu-{number}" for number in range(4)]


def ended_job(at: float, job: int = 7, nodes: Sequence[str] = NODES, state: str = "FAILED") -> JobEnd:
    run = JobRun(
        job_id=job, submit_time=1, restart_count=0, address=str(job), name="train", user="alice",
        nodes=tuple(f"worker-{node}" for node in nodes), release="requeue", why="",
    )  # fmt: skip
    return JobEnd(run=run, job=str(job), work="alice/train", state=state, code=1, began=1.0, ended=at)


def told(end: JobEnd) -> Signal:
    return Signal(
        source="slurm", node="", boot_id="", kind=JOB_ENDED, code=None, pci=None, seen_at=end.ended,
        received_at=end.ended, dedupe=f"job-ended:{end.run.key}", detail=end.model_dump(mode="json"),
    )  # fmt: skip


class World:
    """Prometheus, Slurm nodes on machines, and what was handed to the intake."""

    def __init__(self, *, monitored: bool = True) -> None:
        self.clock, self.prometheus = ManualClock(1_000_000.0), FakePrometheus()
        self.taken: list[Signal] = []
        self.store_fails = False
        asked = self.prometheus if monitored else None
        self.forensics = Forensics(asked, self, rules.load(), self.submit, self.clock)

    def node_of(self, worker: str) -> str | None:
        return worker.removeprefix("worker-")

    def submit(self, found: Sequence[Signal]) -> None:
        if self.store_fails:
            raise Retry("disk full")
        self.taken += [one for one in found if one.kind == FORENSICS]

    def scrapes(self, *, replicas: Sequence[str] = ("",), link_downed_on: str = "") -> None:
        """Half an hour of the agents, the fault 40 s before now."""
        now = self.clock.now()
        times = [now - 1800 + 15 * step for step in range(126)]
        for number, node in enumerate(NODES):
            for replica in replicas:
                where = {"job": "agents", "instance": f"10.0.0.{number}:9465", "replica": replica}
                port = {"device": "mlx5_2", "port": "1", "rail": "2", "gpu": "2"}
                moved = [(at, 3.0 + (node == link_downed_on and at > now - 40)) for at in times]
                about = where | {"node": node, "boot_id": f"boot-{node}"}
                self.prometheus.put("remediator_agent_info", about, [(at, 1.0) for at in times])
                self.prometheus.put("remediator_ib_link_downed_total", where | port, moved)

    def crash(self, **changes: object) -> None:
        self.forensics.submit([told(ended_job(self.clock.now(), **changes))])  # type: ignore[arg-type]

    def look(self) -> list[Signal]:
        before = len(self.taken)
        self.clock.advance(SETTLE_S)
        self.forensics.look()
        return self.taken[before:]


@pytest.mark.parametrize("replicas", [[""], ["a", "b"]])
def test_the_node_whose_port_went_down_is_named(replicas: list[str]) -> None:
    world = World()
    world.scrapes(link_downed_on="gpu-2", replicas=replicas)
    world.crash()
    (found,) = world.look()
    assert (found.source, found.kind, found.node, found.detail["nodes"]) == (
        "slurm",
        FORENSICS,
        "",
        ["gpu-2"],
    )
    assert found.detail["says"] == (
        "job 7 exited with code 1: evidence points to gpu-2: port mlx5_2/1 went down 45 s before the end; "
        "none of its 3 other nodes does"
    )
    assert world.look() == []


def test_quiet_nodes_are_no_evidence() -> None:
    world = World()
    world.scrapes()
    world.crash()
    assert world.look()[0].detail["outcome"] == "none"


def test_it_waits_for_the_scrape_after_the_end() -> None:
    world = World()
    world.scrapes()
    world.crash()
    world.forensics.look()
    assert world.prometheus.asked == []


def test_without_prometheus_it_says_so_at_once() -> None:
    world = World(monitored=False)
    world.crash()
    world.forensics.look()
    assert "unknown: no Prometheus" in world.taken[0].detail["says"]


def test_a_node_nobody_reads_is_unknown() -> None:
    world = World()
    world.scrapes(link_downed_on="gpu-2")
    world.crash(nodes=[*NODES, "gpu-9"])
    (found,) = world.look()
    assert (found.detail["outcome"], found.detail["nodes"]) == ("unknown", [])
    assert "gpu-9 is not read" in found.detail["says"]


def test_a_silent_prometheus_is_asked_again_then_given_up() -> None:
    world = World()
    world.prometheus.silent = True
    world.crash()
    assert world.look() == []
    world.clock.advance(GIVE_UP_S)
    assert "unknown: Prometheus does not answer" in world.look()[0].detail["says"]


def test_what_is_not_stored_is_handed_in_again() -> None:
    world = World()
    world.scrapes()
    world.crash()
    world.store_fails = True
    assert world.look() == []
    world.store_fails = False
    assert len(world.look()) == 1


def test_an_end_that_is_no_crash_is_not_looked_into() -> None:
    world = World()
    world.crash(state="OUT_OF_MEMORY")
    assert world.look() == []
    assert world.prometheus.asked == []


def test_a_storm_of_crashes_is_bounded() -> None:
    world = World(monitored=False)
    for job in range(MOST + 5):
        world.crash(job=job + 1)
    assert len(world.look()) == MOST


def test_the_first_line_of_a_code_counts_although_its_counter_was_not_there() -> None:
    world = World()
    world.scrapes()
    now = world.clock.now()
    where = {"job": "agents", "instance": "10.0.0.1:9465", "replica": "", "pci": "0000:18:00"}
    for xid in ("74", "31", "x"):
        samples = [(now - 30, 1.0), (now - 15, 1.0), (now, 1.0)]
        world.prometheus.put("remediator_agent_xid_total", where | {"xid": xid}, samples)
    world.crash()
    says = world.look()[0].detail["says"]
    assert "gpu-1: XID 74 on 0000:18:00 was told" in says
    assert "31" not in says


def test_an_address_that_two_nodes_had_says_nothing_about_either() -> None:
    world = World()
    world.scrapes(link_downed_on="gpu-2")
    about = {"job": "agents", "instance": "10.0.0.2:9465", "node": "gpu-3", "boot_id": "b"}
    world.prometheus.put("remediator_agent_info", about, [(world.clock.now() - 900, 1.0)])
    world.crash()
    assert world.look()[0].detail["nodes"] == []


@given(names=st.lists(st.text(max_size=9), min_size=1, max_size=5))
def test_no_name_leaves_its_quotes(names: list[str]) -> None:
    prometheus = FakePrometheus()
    assert readings(prometheus, [*names, 'gpu"}) or vector(1)', "gpu-1"], 1.0, 60.0) == []
    for query in prometheus.asked:
        value = query[query.index('=~"', query.index(",")) + 2 : query.rindex("}")]
        assert "gpu\\-1" in json.loads(value)
        assert "vector" not in query


def test_the_record_stands_with_the_job_and_with_the_named_node_and_touches_nothing(tmp_path: Path) -> None:
    world = Deciding(tmp_path)
    now = world.clock.now()
    end = ended_job(now)
    node = world.machines["gpu-2"]
    with world.store.write() as connection:
        for name, key, plan in (("job", "job/7", RESTART_JOB), ("own", node.key, "move-jobs")):
            one = Incident(
                id=name, key=key, node="gpu-2", node_uid=node.uid, boot_id=node.boot_id, pool="training",
                tier="T3", rule="r", plan=plan, cause="c", fault_at=now, opened_at=now,
            )  # fmt: skip
            incidents.insert(connection, one)
        signals.insert_new(connection, [forensic(end, "named", "evidence points to gpu-2", ["gpu-2"], now)])
    world.turn()
    with world.store.read() as connection:
        for incident in ("job", "own"):
            whys = [
                row["why"] for row in story_of(connection, incident)["timeline"] if row["action"] == FORENSICS
            ]
            assert whys == ["job 7 exited with code 1: evidence points to gpu-2"]
        assert chain.verify(connection).ok
    assert {one.id for one in world.incidents()} == {"job", "own"}


def test_the_record_is_there_without_any_incident(tmp_path: Path) -> None:
    world = Deciding(tmp_path)
    with world.store.write() as connection:
        found = forensic(ended_job(world.clock.now()), "none", "no evidence", [], world.clock.now())
        signals.insert_new(connection, [found, found])
    world.turn()
    with world.store.read() as connection:
        records = [row for row in chain.read(connection) if row["action"] == FORENSICS]
    assert [(row["target"], row["detail"]["outcome"]) for row in records] == [("job 7", "none")]
    assert world.incidents() == []
