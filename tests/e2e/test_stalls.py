"""Jobs stop working, in real time: one hangs, one waits, one only seems to; half an hour each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.inject import processes_named, processes_running
from deploy.lab.spec import GPUS_PER_NODE, WORKERS
from remediator.incidents.ranks import WORKED
from remediator.model.ranks import BIN_S
from remediator.run.ranks import EVERY_S, SETTLE_S
from tests.e2e.checkpoints import saved, saves_seen
from tests.e2e.helpers import Json, Servers, Site, Training, in_order, wait_for
from tests.e2e.panels import Target
from tests.e2e.prometheus import ask

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(2700)]

FLAT_S = 600
"""The least that settings allow."""
LONGEST_S = FLAT_S + 2 * BIN_S + EVERY_S + SETTLE_S + 120
"""Until a stall has been seen."""
SETTINGS = {"POOLS__TRAINING__RESTART_FAILED_JOBS": "true", "STALLS__FLAT_S": str(FLAT_S)}
TRAINER = "/shared/job/train.py"
SCRIPT = f"""#!/bin/bash
#SBATCH --job-name=train --ntasks-per-node=1 --gres=gpu:8 --output=/shared/job/train-%j.out
export STEPS=1000000 STEP_SECONDS=0.5 CKPT_EVERY=20 PEER_SECONDS=7200
srun python3 {TRAINER}
"""
COMPARED = Target("Running jobs compared with their past and their ranks", "A")
SPINNING = Target("GPUs that run kernels and compute nothing", "A")
AGE = Target("Checkpoint age", "A")


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    """A pool that restarts failed jobs and knows when they saved."""
    with in_order(lab, "move-jobs") as found, saves_seen(found, **SETTINGS):
        nodes = [found.node_of(f"worker-{number}") for number in range(WORKERS)]
        try:
            yield found
        finally:
            for node in nodes:
                gpus_do(found, node, tensor=0, kernels=0)


def gpus_do(site: Site, node: str, *, tensor: int, kernels: int) -> None:
    """What the driver says of all of a node's GPUs, in percent."""
    for gpu in range(GPUS_PER_NODE):
        site.lab.inject.nvml(node, gpu, "tensor", tensor)
        site.lab.inject.nvml(node, gpu, "utilization", kernels)


def nodes_of(site: Site, job: Training) -> list[str]:
    return [site.node_of(worker) for worker in job.workers()]


def submit(site: Site, nodes: int) -> Training:
    job = site.lab.slurm("sbatch", "--parsable", f"-N{nodes}", stdin=SCRIPT).strip()
    return Training(site.lab, job)


def worked(site: Site, *widths: int) -> list[Training]:
    """Jobs of so many nodes each, that have worked for as long as it takes to know one."""
    for number in range(WORKERS):
        gpus_do(site, site.node_of(f"worker-{number}"), tensor=60, kernels=100)
    jobs = [submit(site, nodes) for nodes in widths]
    site.trains(*jobs)
    began = time.monotonic()
    await_found(len(jobs), "works")
    time.sleep(max(0.0, began + WORKED * BIN_S + SETTLE_S - time.monotonic()))
    return jobs


def stop(site: Site, job: Training, *, kernels: int) -> None:
    """All ranks stand still and save no more, and then their GPUs compute nothing."""
    for node in nodes_of(site, job):
        group = site.lab.node(node).group
        ranks = set(processes_running(group, TRAINER)) & set(processes_named(group, "python3"))
        assert len(ranks) == 1
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
    for node in nodes_of(site, job):
        gpus_do(site, node, tensor=0, kernels=kernels)


def compared(outcome: str) -> float:
    """How many jobs the looks so far found to be so, as Prometheus has it."""
    found = ask(f'sum(remediator_ranks_compared_total{{outcome="{outcome}"}})')
    return found[0].value if found else 0.0


def await_found(count: float, outcome: str) -> None:
    """Wait until jobs have been found to be so that many times more."""
    before = compared(outcome)
    seconds = 3 * EVERY_S + BIN_S
    wait_for(f"{count} times {outcome!r}", lambda: compared(outcome) >= before + count, seconds, every=2.0)


def ages(*jobs: Training) -> list[float]:
    """Seconds since each one's newest checkpoint, as the dashboard has it; -1 where it has none."""
    rows = {job: age for (job, _, _), age in AGE.rows().items()}
    return [rows.get(job.address, -1.0) for job in jobs]


def restarted(site: Site, job: Training) -> Json:
    """Wait until the job is requeued, computes again, and its incident is closed; that incident."""
    servers = Servers(site.lab)
    with site.explained():
        wait_for("the requeue", lambda: servers.requeues(job.address), LONGEST_S, every=1.0)
    site.moves(job)
    for node in nodes_of(site, job):
        gpus_do(site, node, tensor=60, kernels=100)
    return site.closes(site.controller.incidents()[0]["node"])


def test_a_job_that_hangs_is_restarted_once_and_those_beside_it_are_left_alone(site: Site) -> None:
    servers = Servers(site.lab)
    hangs, waits, works = worked(site, 2, 1, 1)
    sick = nodes_of(site, hangs)
    stop(site, hangs, kernels=100)
    stop(site, waits, kernels=0)
    hung, reached = saved(hangs), works.reached()
    wait_for("the panel of hangs", lambda: SPINNING.rows() == {(node,): 8.0 for node in sick}, 90, every=1.0)
    wait_for("old saves of two jobs", lambda: min(ages(hangs, waits)) > 90, 180, every=1.0)
    assert 0 <= ages(works)[0] < 60

    incident = restarted(site, hangs)
    assert (incident["plan"], incident["rule"]) == ("restart-job", "job-stalled")
    assert "while kernels run all the time" in incident["sentence"]
    assert "because all its ranks wait for each other" in incident["sentence"]
    assert hangs.terms() == {"0": 1, "1": 1}  # Slurm lets what stands still go on first, so it could save
    (resumed,) = {int(event["step"]) for event in hangs.events("START", 1)}
    assert resumed >= hung > 0
    (loss,) = site.controller.story(incident["id"])["losses"].values()
    assert loss["gpus"] == 2 * GPUS_PER_NODE

    await_found(2, "stalled")  # the one that waits: the restarted job has been looked at too
    assert COMPARED.rows().keys() >= {("stalled", ""), ("works", "few-nodes")}
    assert site.controller.incidents() == [incident]
    assert hangs.is_running(1)
    assert waits.is_untouched()
    assert works.is_untouched()
    assert works.reached() > reached
    assert (servers.requeues(hangs.address), servers.requeue_writes()) == (1, 1)
    ours = {f"POST /slurm/v0.0.45/{what}" for what in ("jobs/requeue", f"job/{hangs.address}")}
    assert set(servers.changes()) == ours
    told = [text for text in site.controller.told("", "user:root") if f"job {waits.address} " in text]
    (text,) = told
    assert "most of them run no kernels either" in text
    assert "left as it is" in text
    assert site.controller.audit()["ok"]


def test_a_job_that_saves_while_no_tensor_core_works_is_left_alone(site: Site) -> None:
    """Its GPUs look just like those of one that hangs: it goes on with kernels of another kind."""
    servers = Servers(site.lab)
    (lives,) = worked(site, 1)
    (node,) = nodes_of(site, lives)
    gpus_do(site, node, tensor=0, kernels=100)
    wait_for("the panel of hangs", lambda: SPINNING.rows() == {(node,): 8.0}, 90, every=1.0)
    said = "while kernels run all the time"
    wait_for("the verdict", lambda: said in site.controller.log(), LONGEST_S, every=2.0)
    (verdict,) = (line for line in site.controller.lines() if said in line)
    assert "it has saved meanwhile, recorded" in verdict
    await_found(1, "stalled")
    assert site.controller.log().count(said) == 1
    assert site.controller.told("", "user:root") == []
    assert site.controller.incidents() == []
    assert servers.changes() == []
    assert lives.is_untouched()
