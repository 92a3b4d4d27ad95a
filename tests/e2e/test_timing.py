"""Soft evidence under a real training job: it is not signalled before it has saved by itself, then it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from tests.e2e.alerts import tell
from tests.e2e.checkpoints import saved, saves_seen
from tests.e2e.helpers import Servers, Site, Training, in_order, wait_for
from tests.e2e.prometheus import ask

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = 150
"""Steps between the job's own saves, ten steps a second."""
SOFT = {"alertname": "NvlinkCrc", "fault": "nvlink-crc", "witness": "own-counters"}
"""An alert whose rule says at-checkpoint."""
CRC = 'remediator_nvlink_errors_total{gpu="0",link="0",kind="crc"}'
COUNTER = "field.163.0"
A_SECOND = 1000
SCRIPT = f"""#!/bin/bash
#SBATCH --job-name=train -N2 --ntasks-per-node=1 --gres=gpu:8 --output=/shared/job/train-%j.out
export STEPS=1000000 STEP_SECONDS=0.1 CKPT_EVERY={EVERY}
srun python3 /shared/job/train.py
"""


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    """One agent looks at what jobs save."""
    with in_order(lab) as found, saves_seen(found):
        yield found


def counter_of(node: str) -> dict[str, str]:
    """What Prometheus calls the CRC errors of a link of this node, and their agent's boot."""
    whose = f'{CRC} * on (job, instance) group_left (node, boot_id) remediator_agent_info{{node="{node}"}}'
    (found,) = ask(whose)
    return found.labels


def until_fenced(site: Site, servers: Servers, node: str, job: Training) -> int:
    """The link goes on counting errors: wait for the fence, which comes when Prometheus' samples have said so
    for a minute; the step that was saved until then.
    """
    before: list[int] = []
    began = time.monotonic()

    def is_fenced() -> bool:
        site.lab.inject.nvml(node, 0, COUNTER, int((time.monotonic() - began) * A_SECOND))
        before[:] = [saved(job)]
        return servers.fences(node) == 1

    wait_for("the fence", is_fenced, 240, every=0.2)
    return before[0]


def test_a_job_is_not_signalled_before_its_next_complete_checkpoint_and_resumes_there(site: Site) -> None:
    servers = Servers(site.lab)
    job = Training(site.lab, site.lab.slurm("sbatch", "--parsable", stdin=SCRIPT).strip())
    site.trains(job, step=EVERY + 20)
    sick = job.workers()[0]
    node = site.node_of(sick)
    tell(site, counter_of(node) | SOFT)
    before = until_fenced(site, servers, node, job)
    assert servers.drains(sick) == 1
    while saved(job) == before:  # it runs on, on a node that takes no other job
        assert job.is_untouched() or saved(job) > before
        time.sleep(0.5)
    site.moves(job)
    (resumed,) = {int(event["step"]) for event in job.events("START", 1)}
    assert resumed >= before + EVERY
    assert job.terms() == {"0": 1, "1": 1}
    incident = site.closes(node, 120)
    story = site.controller.story(incident["id"])
    (wait,) = [step for step in story["steps"] if step["name"] == "await-save"]
    assert before < int(wait["facts"]["checkpoint"][-13:-5]) <= resumed
    (loss,) = story["losses"].values()
    assert (loss["gpus"], 0 <= loss["before_s"] < 30) == (16, True)
    assert loss["gpu_hours"] is not None
