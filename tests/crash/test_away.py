"""The controller away for an hour, four incidents open: what it finds then decides, nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from remediator.audit import chain
from remediator.model.plan import StepRow
from remediator.store import outbox
from remediator.workflow.steps import STEPS
from tests.crash.test_river import chain_is_whole
from tests.fakes.river import NODES, River

HOUR = 3600.0
TRAIN, ALLOCATED, OTHER = 1, 2, 3
"""A job of gpu-0 and gpu-1, an salloc on gpu-2, a job of gpu-3."""
REMOVING = {"requeue", "set_down", "reserve", "start_now", "set_job_reservation"}


class Site:
    """Four machines that fail within seconds of each other, and everything that is asked of the servers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.river = River(folder, spares=4)
        self.asked: list[str] = []
        self.requeued: list[tuple[str, int]] = []
        self.river.slurm.before = self.note
        self.river.kube.before = self.asked.append
        self.river.submit_job(width=2, save=5.0)
        self.river.submit_job(width=1, batch=False)
        self.river.submit_job(width=1, save=1.0)
        self.touched: set[str] = set()
        self.at_death: dict[str, list[StepRow]] = {}

    def note(self, op: str, target: str) -> None:
        """Slurm is asked for something; of a requeue, for which run."""
        self.asked.append(op)
        if op == "requeue":
            self.requeued.append((target, self.river.slurm._jobs[int(target)].seen.restart_count))

    def fail(self, offsets: dict[str, float], until: float) -> None:
        """Kernel lines at these seconds; the controller lives until `until`."""
        start = self.river.clock.now()
        lines = sorted((at, node) for node, at in offsets.items())
        while self.river.clock.now() < start + until or lines:
            while lines and self.river.clock.now() >= start + lines[0][0]:
                self.river.xid(lines.pop(0)[1])
            if self.river.clock.now() < start + until:
                self.river.turn()
            else:
                self.river.clock.advance(0.1)

    def away(self, *hands: Callable[[Site], None]) -> None:
        """It dies; an hour passes, in which these things happen at any time; the next life begins."""
        self.at_death = {one.id: self.river.steps(one.id) for one in self.river.all_incidents()}
        due = sorted((self.random.uniform(0.0, HOUR), number) for number in range(len(hands)))
        for passed in range(0, int(HOUR), 60):
            with self.unseen():
                while due and due[0][0] <= passed + 60:
                    hands[due.pop(0)[1]](self)
                self.river.slurm.jobs(deadline=5.0)
            self.river.clock.advance(60.0)
            self.river.slinky()
        self.asked.clear()
        self.river.begin()

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What others do is not counted as the controller's."""
        writes, asked = list(self.river.slurm.writes), list(self.asked)
        yield
        self.river.slurm.writes[:], self.asked[:] = writes, asked

    def finish(self) -> None:
        """The salloc's owner leaves at last, and everything comes to its end."""
        self.river.run(30.0)
        with self.unseen():
            if self.river.job(ALLOCATED).state == "RUNNING":
                self.river.slurm.cancel(ALLOCATED)
        self.river.run(900.0)

    def records(self, action: str) -> list[dict[str, Any]]:
        with self.river.store.read() as connection:
            return [one for one in chain.read(connection) if one["action"] == action]

    def pages(self) -> list[str]:
        with self.river.store.read() as connection:
            rows = outbox.due(connection, self.river.clock.now(), 1000)
        return [row.message.text for row in rows if row.message.urgency == "page"]


def allocation_ends(site: Site) -> None:
    site.river.slurm.cancel(ALLOCATED)


def job_ends(site: Site) -> None:
    if not site.river.job(OTHER).is_over:
        site.river.slurm.cancel(OTHER)


def ctld_restarts(site: Site) -> None:
    site.river.slurm.kill_ctld()


def spare_vanishes(site: Site) -> None:
    """Its machine is gone before anybody let workers onto it."""
    waiting = [name for name in site.river.names[len(NODES) :] if name not in site.river.admitted()]
    if waiting:
        site.river.kube.remove_node(waiting[0])
        site.river.names.remove(waiting[0])
        site.river.add_spare("spare-later")


def person_resumes(site: Site) -> None:
    """In Slurm, what we had drained for the salloc's machine."""
    node = site.river.slurm.node("w-gpu-2", deadline=5.0)
    if node is not None and node.is_drain and node.reason.startswith("remediator: "):
        site.river.slurm.resume("w-gpu-2", deadline=5.0)
        site.touched.add("gpu-2")


HANDS = [allocation_ends, job_ends, ctld_restarts, spare_vanishes, person_resumes]


def assert_nothing_twice(site: Site) -> None:
    river = site.river
    assert len(site.requeued) == len(set(site.requeued))
    assert river.slurm.count("requeue", str(ALLOCATED)) == 0
    assert river.job(TRAIN).restart_count == river.slurm.count("requeue", str(TRAIN)) > 0
    for node in NODES:
        assert river.slurm.count("drain", f"w-{node}") == 1
    assert not [write for write in river.slurm.writes if write.op == "resume"]
    claims = Counter(write.node for write in river.kube.writes if write.op == "claim")
    assert not [node for node, times in claims.items() if times > 1]


def assert_all_ended(site: Site) -> None:
    river = site.river
    found = {one.node: one.state for one in river.all_incidents()}
    assert found == {node: "overridden" if node in site.touched else "closed" for node in NODES}
    assert river.slurm.reservations(deadline=5.0) == ()
    assert len(river.admitted()) == len(NODES) - len(site.touched)
    assert river.job(TRAIN).state == "RUNNING"
    assert chain_is_whole(river)


def assert_late_deadlines_paged(site: Site) -> None:
    """Every step that was under way was late, people were told so once, and it was looked at all the same."""
    told = Counter((one["incident"], one["step"], one["subject"]) for one in site.records("overdue"))
    for incident, rows in site.at_death.items():
        (node,) = [one.node for one in site.river.all_incidents() if one.id == incident]
        late = [row for row in rows if row.started_at and row.state not in {"done", "held"}]
        for row in late if node not in site.touched else []:
            assert told[incident, row.name, row.subject] == 1, row
            assert any(f"{row.name} takes longer" in text for text in site.pages())
    assert set(told.values()) <= {1}


def assert_looked_first(site: Site) -> None:
    """No write to a job before this life has listed the jobs and read a node."""
    first = next((place for place, op in enumerate(site.asked) if op in REMOVING), None)
    if first is not None:
        assert {"jobs", "node"} <= set(site.asked[:first])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, 1)


def test_after_an_hour_away_everything_goes_on_where_it_stood(site: Site) -> None:
    """One job is in its grace, one is left alone, one machine is about to lose its pods."""
    site.fail({"gpu-2": 0.0, "gpu-3": 2.0, "gpu-1": 3.5, "gpu-0": 3.7}, until=6.0)
    assert site.river.job(TRAIN).is_completing
    assert len(site.river.open_incidents()) == 4
    site.away()
    site.finish()
    assert_nothing_twice(site)
    assert_all_ended(site)
    assert_late_deadlines_paged(site)
    assert_looked_first(site)
    assert any("has been held for" in text for text in site.pages())


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happened_meanwhile_is_found_and_nothing_is_done_twice(tmp_path: Path, seed: int) -> None:
    site = Site(tmp_path, seed)
    until = site.random.uniform(13.0, 20.0)  # a drain is seen for long enough to be slurmctld's own
    site.fail({node: site.random.uniform(0.0, until) for node in NODES} | {"gpu-2": 0.0}, until)
    hands = site.random.sample(HANDS, site.random.randint(0, len(HANDS)))
    site.away(*hands)
    site.finish()
    assert_nothing_twice(site)
    assert_all_ended(site)
    assert_late_deadlines_paged(site)
    assert_looked_first(site)


def test_a_life_begins_with_what_the_last_one_meant_to_do_then_drain_and_jobs(site: Site) -> None:
    site.fail({"gpu-2": 0.0, "gpu-3": 2.0, "gpu-1": 3.5, "gpu-0": 3.7}, until=6.0)
    standing = [one for one in site.river.open_incidents() if not _evicts(site.river.steps(one.id))]
    assert len(standing) >= 3
    site.away()
    acts: dict[str, list[str]] = {one.id: [] for one in standing}
    for _ in range(10):
        for call in site.river.turn():
            acts.get(call.incident.id, []).append(call.row.name)
    for incident, names in acts.items():
        meant = {
            row.name for row in site.at_death[incident] if row.state == "running"
        }  # an INTENT, no OUTCOME
        looked = [name for name in dict.fromkeys(names) if name not in meant]
        assert looked[:2] == ["drain-slurm", "survey"]
        assert set(names[: len(meant)]) == meant


def _evicts(rows: list[StepRow]) -> bool:
    return any(row.name == "evict-pods" and row.acted_at is not None for row in rows)


def stands(river: River, seconds: float) -> None:
    """A machine has been drained for so long, and waits for its salloc."""
    river.submit_job(width=1, batch=False)
    river.xid("gpu-0")
    river.run(seconds)
    assert river.slurm.count("drain", "w-gpu-0") == 1


def test_a_resume_after_a_restart_of_slurmctld_is_a_persons(tmp_path: Path) -> None:
    """Only what slurmctld took within seconds of its death is forgotten: our drain stood for long."""
    river = River(tmp_path)
    stands(river, 20.0)
    river.slurm.kill_ctld()
    river.run(5.0)
    river.slurm.resume("w-gpu-0", deadline=5.0)
    river.run(30.0)
    assert river.slurm.count("drain", "w-gpu-0") == 1
    assert [one.state for one in river.all_incidents()] == ["overridden"]


@pytest.mark.parametrize("dies", [True, False])
def test_a_job_that_came_while_the_drain_was_forgotten_is_moved_too(tmp_path: Path, dies: bool) -> None:
    river = River(tmp_path)
    river.kube.add_pod("slurm", "kept", "gpu-0", labels={"remediator.dev/no-replace": "true"})
    river.xid("gpu-0")
    river.run(3.0)
    node = river.slurm.node("w-gpu-0", deadline=5.0)
    assert node is not None
    river.slurm.kill_ctld()
    river.slurm.mark("w-gpu-0", flags=node.flags - {"DRAIN"})
    late = river.submit_job(width=4)
    assert "w-gpu-0" in river.job(late).nodes
    if dies:
        river.begin()
    river.run(20.0)
    assert river.slurm.count("drain", "w-gpu-0") == 2
    assert (river.job(late).state, river.job(late).restart_count) == ("PENDING", 1)
    river.kube.remove_pod("slurm", "kept")
    river.run(60.0)
    assert (river.job(late).state, river.job(late).restart_count) == ("RUNNING", 1)
    assert [one.state for one in river.all_incidents()] == ["closed"]


def test_a_condition_that_is_looked_at_again_is_not_late(tmp_path: Path) -> None:
    """Long after the drain slurmctld comes back without it: that look has the time of the first one."""
    river = River(tmp_path)
    stands(river, 3.0)
    node = river.slurm.node("w-gpu-0", deadline=5.0)
    assert node is not None
    river.clock.advance(STEPS["drain-slurm"].bound_s + STEPS["survey"].bound_s)
    river.slurm.kill_ctld()
    river.slurm.mark("w-gpu-0", flags=node.flags - {"DRAIN"})
    river.run(20.0)
    assert river.slurm.count("drain", "w-gpu-0") == 2
    with river.store.read() as connection:
        late = {one["step"] for one in chain.read(connection) if one["action"] == "overdue"}
    assert not late & {"drain-slurm", "survey"}
