"""What goes on while the controller is killed: each play ends as it must, by the servers' own logs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator

from deploy.lab.api import Lab
from deploy.lab.inject import processes_named, processes_running
from remediator.kube.fence import DID, FENCED, INCIDENT
from remediator.kube.spare import CLAIM
from tests.e2e.full import KEYS, nodes, spares, taints, was_replaced
from tests.e2e.helpers import ONE_OF_EACH, Json, Servers, Training, wait_for
from tests.e2e.test_crashed_jobs import SETTINGS, submit_crashing, two_crash
from tests.sigkill.drill import Drill, accepted

SAVES_S = 90
SILENCE_S = 120
# a look well within the third of slurmd's timeout after which Slurm takes a node's jobs away
HOLDING = {
    "REMEDIATOR_POOLS__TRAINING__HOLD_UNTIL_FENCED": "true",
    "REMEDIATOR_SLURM__POLL_IDLE_S": "8",
}
TESTED = {"create pods": 1, "delete pods": 1}


def is_replaced(drill: Drill) -> None:
    """The pool is full, an older job waits: the victim gets its place back, on the one spare."""
    drill.arm()
    site = drill.site
    servers = Servers(site.lab)
    (spare,) = spares(site)
    rival = site.train("--begin=now+3600")
    victim, other = site.train(), site.train()
    site.trains(victim, other)
    site.lab.slurm("scontrol", "update", f"jobid={rival.address}", "starttime=now")
    sick = victim.workers()[0]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    drill.runs_again(victim)
    drill.ends(node, "replace")
    assert rival.record()["job_state"] == ["PENDING"]
    assert other.is_untouched()
    assert victim.terms() == {"0": 1, "1": 1}
    assert_one_requeue(servers, victim)
    assert (servers.drains(sick), servers.node_writes(sick)) == (1, 1)
    assert was_replaced(site, node, sick, spare)
    patches = {f"patch nodes {node}": 2, f"patch nodes {spare}": 3}
    assert accepted(servers) == patches | TESTED | {f"create pods/eviction {sick}": 1}
    assert_no_place(drill)


def moves_only(drill: Drill) -> None:
    """A job of two nodes leaves the sick one; the node waits drained and fenced."""
    drill.arm()
    site = drill.site
    job = site.train()
    site.trains(job)
    servers = Servers(site.lab)
    sick = job.workers()[-1]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    drill.runs_again(job)
    drill.ends(node, "move-jobs")
    assert servers.counts(sick, node, job.address) == ONE_OF_EACH
    assert job.terms() == {"0": 1, "1": 1}
    assert sick not in job.workers()


def is_drained_and_returned(drill: Drill) -> None:
    """The job runs on; when it is over a person gives the node back."""
    drill.arm()
    site = drill.site
    job, sick, node, servers = on_one_node(drill)
    site.lab.inject.xid(node, 79)
    drill.ends(node, "drain-only")
    assert job.is_untouched()
    site.lab.slurm("scancel", "--full", "--signal=KILL", job.address)
    give_back(drill, node)
    assert (servers.drains(sick), servers.node_writes(sick)) == (1, 2)
    assert accepted(servers) == {f"patch nodes {node}": 2}
    assert in_slurm(drill, sick)["state"] == ["IDLE", "DYNAMIC_NORM"]
    assert FENCED not in taints(nodes(site)[node])


def rejoins_and_is_returned(drill: Drill) -> None:
    """The worker comes back DOWN on the spare; then the repaired node is made the pool's next spare."""
    drill.arm()
    drill.hold("admit-spare:accepted")
    site = drill.site
    (spare,) = spares(site)
    job, sick, node, servers = on_one_node(drill)
    site.lab.inject.xid(node, 79)
    drill.dies("admit-spare:accepted")
    wait_for("the worker on the spare", lambda: is_up_on(drill, sick, spare), 90, every=0.3)
    site.lab.slurm("scontrol", "update", f"nodename={sick}", "state=down", "reason=Not responding")
    drill.let_go()
    drill.ends(node, "replace")
    assert (servers.drains(sick), servers.node_writes(sick)) == (1, 2)
    assert "IDLE" in in_slurm(drill, sick)["state"] or job.is_running(1)
    assert_one_requeue(servers, job)
    before = Servers(site.lab)
    give_back(drill, node, "--as-spare")
    assert accepted(before) == {f"patch nodes {node}": 3} | TESTED
    assert taints(nodes(site)[node]) == {KEYS.spare}


def is_forced(drill: Drill) -> None:
    """The job's step stands still and cannot be killed: DOWN ends it, and one copy of it goes on."""
    drill.arm()
    site = drill.site
    job, sick, node, servers = on_one_node(drill)
    for pid in processes_named(site.lab.node(node).group, "slurmstepd"):
        os.kill(pid, signal.SIGSTOP)
    site.lab.inject.xid(node, 79)
    drill.runs_again(job)
    drill.ends(node, "replace")
    assert servers.node_writes(sick) == 2
    assert servers.requeue_writes() == 1
    assert site.node_of(sick) != node


def goes_silent(drill: Drill, plan: str = "replace") -> None:
    """Agent and slurmd stand still: one DOWN, Slurm's one requeue, and a start on proof alone."""
    with drill.slurmd_timeout(SILENCE_S):
        job, sick, node, servers = falls_silent(drill)
        try:
            drill.dies("hold-jobs:accepted")
            assert servers.node_writes(sick) == 2
            assert job.record()["restart_cnt"] == 1
        finally:
            power_cycle(drill, node)
        drill.runs_again(job)
        drill.ends(node, plan)
        assert (servers.drains(sick), servers.requeue_writes()) == (1, 0)


def goes_silent_and_only_its_job_moves(drill: Drill) -> None:
    """The same at stage move-jobs."""
    goes_silent(drill, "move-jobs")


def is_resumed_while_its_job_is_held(drill: Drill) -> None:
    """A person resumes the silent node. Nothing proves that its job's old processes are gone: it is held."""
    with drill.slurmd_timeout(SILENCE_S):
        job, sick, node, servers = falls_silent(drill)
        try:
            drill.dies("hold-jobs:accepted")
            with operator_frozen(drill.site.lab):
                drill.site.lab.slurm("scontrol", "update", f"nodename={sick}", "state=resume")
                drill.ends(node, "move-jobs", "overridden")
            seen = job.record()
            assert (seen["job_state"], seen["restart_cnt"], seen["hold"]) == (["PENDING"], 1, True)
        finally:
            power_cycle(drill, node)
        drill.site.lab.slurm("scontrol", "release", job.address)
        drill.runs_again(job)
        assert (servers.node_writes(sick), servers.requeue_writes()) == (2, 0)


@contextlib.contextmanager
def operator_frozen(lab: Lab) -> Iterator[None]:
    """Else it drains a cordoned node anew within two seconds, and nobody sees what a person did before."""
    (pid,) = processes_running(lab.node("sys-0").group, "deploy.lab.slinky")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_lost_to_slurm(drill: Drill) -> None:
    """Only its slurmd stands still: Slurm itself takes the job off, we hold it until the pod is gone."""
    drill.arm(**HOLDING)
    site = drill.site
    job, sick, node, servers = on_one_node(drill)
    site.lab.inject.slurmd(node, signal.SIGSTOP)
    drill.dies("hold-jobs:accepted")
    site.lab.kubectl("-n", "slurm", "delete", "pod", sick, "--wait=false")
    drill.runs_again(job)
    drill.ends(node, "hold-job")
    assert (servers.fence_writes(), servers.node_writes(sick), servers.requeue_writes()) == (0, 0, 0)


def falls_silent(drill: Drill) -> tuple[Training, str, str, Servers]:
    """A job of one node whose host stands still, once every agent was heard; the pool holds such jobs."""
    drill.arm(**HOLDING)
    site = drill.site
    job, sick, node, servers = on_one_node(drill)
    wait_for("a heartbeat", lambda: site.controller.metric("remediator_agents_heard") == 5, 60, every=1.0)
    site.lab.inject.freeze(node, True)
    return job, sick, node, servers


def on_one_node(drill: Drill) -> tuple[Training, str, str, Servers]:
    """A job that computes, its only worker and node, and what the servers log from now on."""
    job = drill.site.train("-N1")
    drill.site.trains(job)
    servers = Servers(drill.site.lab)
    (sick,) = job.workers()
    return job, sick, drill.site.node_of(sick), servers


def power_cycle(drill: Drill, node: str) -> None:
    """Nothing that ran there can be alive."""
    drill.site.lab.inject.power(node, False)
    drill.site.lab.inject.power(node, True)


def is_suspected(drill: Drill) -> None:
    """Two jobs crash on a node: it is drained, tested and given back."""
    drill.arm(**SETTINGS)
    site = drill.site
    servers = Servers(site.lab)
    sick = "worker-0"
    node = site.node_of(sick)
    two_crash(site, sick)
    drill.ends(node, "give-back")
    assert [one["plan"] for one in site.controller.incidents(node)] == ["give-back", "validate"]
    assert (servers.drains(sick), servers.requeue_writes()) == (1, 0)
    assert FENCED not in taints(nodes(site)[node])
    assert "DRAIN" not in in_slurm(drill, sick)["state"]


def crashes_by_itself(drill: Drill) -> None:
    """A job exits with 1 and is restarted."""
    drill.arm(**SETTINGS)
    site = drill.site
    servers = Servers(site.lab)
    job, cue = submit_crashing(site)
    node = site.node_of(job.workers()[0])
    cue.touch()
    drill.runs_again(job)
    drill.ends(node, "restart-job")
    assert_one_requeue(servers, job)
    assert accepted(servers) == {}


def is_resumed_by_a_person(drill: Drill) -> None:
    """While the job saves: fence, place and claim are taken back, and nothing is written to the node."""
    sick, node, servers = stands_while_it_saves(drill)
    drill.site.lab.slurm("scontrol", "update", f"nodename={sick}", "state=resume")
    drill.ends(node, "replace", "overridden")
    assert servers.node_writes(sick) == 1
    shown = nodes(drill.site)[node]
    assert FENCED not in taints(shown)
    assert not shown["spec"].get("unschedulable")
    assert not {INCIDENT, DID} & set(shown["metadata"]["annotations"])
    assert accepted(servers)[f"patch nodes {node}"] == 2
    assert_let_go(drill)


def is_uncordoned_by_a_person(drill: Drill) -> None:
    """While the job saves: the drain is taken back, and nothing is written to the Kubernetes node."""
    sick, node, servers = stands_while_it_saves(drill)
    drill.site.lab.kubectl("uncordon", node)
    drill.ends(node, "replace", "overridden")
    assert servers.node_writes(sick) == 2
    assert accepted(servers)[f"patch nodes {node}"] == 1
    assert not {"DRAIN", "DOWN"} & set(in_slurm(drill, sick)["state"])
    assert_let_go(drill)


def stands_while_it_saves(drill: Drill) -> tuple[str, str, Servers]:
    """A job of two nodes has its TERM and takes long to save; its place and a spare are held for it."""
    drill.arm()
    site = drill.site
    job = slow_saver(drill)
    wait_for("its run", lambda: job.is_running(0), 60, every=0.2)
    servers = Servers(site.lab)
    sick = job.workers()[0]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    with site.explained():
        wait_for("requeue, place and claim", lambda: holds_all(drill, job), 60, every=0.3)
    return sick, node, servers


def slow_saver(drill: Drill) -> Training:
    """Submit it."""
    lab = drill.site.lab
    (lab.layout.shared / "slow.log").unlink(missing_ok=True)
    program = f"#!/bin/bash\nexec python3 /shared/saver.py /shared/slow.log {SAVES_S}\n"
    options = ("--parsable", "-N2", "--ntasks-per-node=1", "--gres=gpu:8", "--output=/dev/null")
    return Training(lab, lab.slurm("sbatch", *options, stdin=program).strip())


def holds_all(drill: Drill, job: Training) -> bool:
    """All that an incident at this point has set is there."""
    if job.record()["restart_cnt"] != 1 or not places(drill):
        return False
    return any(CLAIM in node["metadata"].get("annotations", {}) for node in nodes(drill.site).values())


def places(drill: Drill) -> list[str]:
    """Our reservations in Slurm."""
    shown = drill.site.lab.slurm("scontrol", "-o", "show", "reservation")
    return [line for line in shown.splitlines() if "remediator_" in line]


def assert_let_go(drill: Drill) -> None:
    """No place, no claim; the spare is as it was, and the job was told once."""
    assert_no_place(drill)
    found = nodes(drill.site).values()
    assert not [node for node in found if CLAIM in node["metadata"].get("annotations", {})]
    assert len(spares(drill.site)) == 1
    log = (drill.site.lab.layout.shared / "slow.log").read_text()
    assert log.count("TERM") == 1
    wait_for("the job to have saved", lambda: "SAVED" in log_of(drill), SAVES_S + 30, every=1.0)


def log_of(drill: Drill) -> str:
    """What the slow job wrote."""
    return (drill.site.lab.layout.shared / "slow.log").read_text()


def give_back(drill: Drill, node: str, *options: str) -> None:
    """A person returns the node; the command's own answer may be lost with the controller."""
    drill.site.lab.remediator("return", node, "--even-so", *options, check=False)
    drill.ends(node, "give-back")


def assert_one_requeue(servers: Servers, job: Training) -> None:
    assert (servers.requeues(job.address), servers.requeue_writes()) == (1, 1)


def assert_no_place(drill: Drill) -> None:
    assert places(drill) == []


def in_slurm(drill: Drill, worker: str) -> Json:
    """A Slurm node's record."""
    shown = json.loads(drill.site.lab.slurm("scontrol", "show", "node", worker, "--json"))
    return dict(shown["nodes"][0])


def is_up_on(drill: Drill, worker: str, node: str) -> bool:
    """The operator has made the moved worker IDLE, or a job runs on it."""
    state = set(in_slurm(drill, worker)["state"])
    trouble = {"DOWN", "DRAIN", "NOT_RESPONDING"}
    return not state & trouble and drill.site.node_of(worker) == node
