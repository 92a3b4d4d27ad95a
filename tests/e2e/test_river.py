"""The main job end to end: a kernel line, one drain, one requeue, the job runs again, no one else is hurt."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.inject import processes_running
from tests.e2e.helpers import ONE_OF_EACH, Follower, Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

STEPS = 150
KINDS = ("afterok", "afternotok", "afterany")


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


def test_a_dead_gpu_moves_its_job_once_and_touches_nothing_else(site: Site) -> None:
    servers = Servers(site.lab)
    victim = site.train(steps=STEPS)
    bystander = site.train("--array=7", "-N1")
    followers = {kind: Follower(site.lab, kind, victim.address) for kind in KINDS}
    site.trains(victim, bystander, step=20)
    sick = victim.workers()[0]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79, gpu=3)
    for worker in victim.workers():  # what the driver says of a torn down job on all its nodes
        site.lab.inject.xid(site.node_of(worker), 45, gpu=3)

    wait_for("the result", (victim.folder / "result.json").exists, 120, every=0.2)
    assert servers.counts(sick, node, victim.address) == ONE_OF_EACH
    assert site.closes(node)["rule"] == "gpu-off-the-bus"
    assert_resumed_exactly(site, victim, sick)
    assert victim.terms() == {"0": 1, "1": 1}

    wait_for("the end of both ranks", lambda: len(victim.events("END", 1)) == 2, 60, every=0.2)
    ended = max(float(event["time"]) for event in victim.events("END", 1))
    for kind in ("afterok", "afterany"):
        wait_for(f"the {kind} job", followers[kind].started, 120, every=0.2)
        assert (followers[kind].started() or 0.0) > ended
    never = followers["afternotok"]
    wait_for(
        "Slurm to give up", lambda: never.why_pending() in {"", "DependencyNeverSatisfied"}, 120, every=0.2
    )
    assert never.started() is None

    assert bystander.is_running(0)
    assert bystander.events("TERM") == []
    assert site.controller.audit()["ok"]


def assert_resumed_exactly(site: Site, job: Training, sick: str) -> None:
    """The second run went on where the first one stopped, on good nodes; the weights are right to the bit."""
    result = json.loads((job.folder / "result.json").read_text())
    (saved,) = {int(event["step"]) for event in job.events("END", 0)}
    assert {int(event["step"]) for event in job.events("START", 1)} == {saved}
    assert sick not in {event["node"] for event in job.events("START", 1)}
    assert (result["restarts"], result["steps_recomputed"]) == (1, 0)
    assert result["sha256"] == site.reference(STEPS)


def test_only_the_array_task_on_the_sick_node_is_moved(site: Site) -> None:
    servers = Servers(site.lab)
    array = site.train("--array=1-2", "-N1").address
    moved, other = Training(site.lab, f"{array}_1"), Training(site.lab, f"{array}_2")
    site.trains(moved, other)
    (sick,) = moved.workers()
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    site.moves(moved)
    site.closes(node)
    assert servers.counts(sick, node, moved.address) == ONE_OF_EACH
    assert moved.terms() == {"0": 1}
    assert other.is_running(0)
    assert other.events("TERM") == []


def test_a_line_told_again_and_again_is_one_incident(site: Site) -> None:
    """On three GPUs at once, to a new controller again by an agent that lost its memory, and once more."""
    servers = Servers(site.lab)
    worker = "worker-2"
    node = site.node_of(worker)
    for gpu in range(3):
        site.lab.inject.xid(node, 79, gpu)
    incident = site.closes(node)["id"]

    site.controller.change("rollout", "restart", "deployment/remediator")
    accepted = 'remediator_signals_received_total{result="accepted",source="agent"}'
    told = site.controller.metric(accepted)
    forget(site, node)
    wait_for(
        "the agent to tell the old lines", lambda: site.controller.metric(accepted) >= told + 3, 150, 0.3
    )
    site.lab.inject.xid(node, 79)
    said = f"{node} is already out of service by incident {incident}"
    wait_for("the verdict on the new line", lambda: said in site.controller.log(), 120, every=0.3)

    assert [found["id"] for found in site.controller.incidents(node)] == [incident]
    assert servers.drains(worker) == servers.node_writes(worker) == 1
    assert servers.fences() == servers.fences(node) == 1
    assert site.controller.audit()["ok"]


def forget(site: Site, node: str) -> None:
    """The node's agent loses its memory and its life; standing still meanwhile it cannot write it again."""
    (agent,) = processes_running(site.lab.node(node).group, "remediator.agent")
    os.kill(agent, signal.SIGSTOP)
    site.lab.exec(["find", "/var/lib/remediator-agent", "-mindepth", "1", "-delete"], node_name=node)
    os.kill(agent, signal.SIGKILL)
