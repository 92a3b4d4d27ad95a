"""Soft evidence under a real training job: it is not signalled before it has saved by itself, then it is."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import CONTROL_PLANE, PROMETHEUS_PORT, SLURM_NAMESPACE
from tests.e2e.alerts import tell
from tests.e2e.helpers import Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

EVERY = 150
"""Steps between the job's own saves, ten steps a second."""
GLOB = "/shared/job/run-{job}/checkpoint-*.json"
AGENT = {"AGENT_CHECKPOINT_GLOBS": GLOB, "AGENT_CHECKPOINT_EVERY_S": "1"}
SERVICE = {"POOLS__TRAINING__CHECKPOINT_GLOB": GLOB}
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
    with in_order(lab) as found:
        reader = found.node_of("worker-3")
        try:
            _set(lab, "daemonset/remediator-agent", AGENT | {"AGENT_CHECKPOINT_NODES": reader})
            _set(lab, "deployment/remediator", SERVICE)
            found.controller.wait()
            yield found
        finally:
            _set(lab, "daemonset/remediator-agent", dict.fromkeys((*AGENT, "AGENT_CHECKPOINT_NODES")))
            _set(lab, "deployment/remediator", dict.fromkeys(SERVICE))
            found.controller.wait()


def _set(lab: Lab, what: str, variables: Mapping[str, str | None]) -> None:
    """Environment variables of a Deployment or DaemonSet (None: off again), and its new pods."""
    changes = [
        f"REMEDIATOR_{name}" + ("-" if value is None else f"={value}") for name, value in variables.items()
    ]
    lab.kubectl("-n", SLURM_NAMESPACE, "set", "env", what, *changes)
    status = ("-n", SLURM_NAMESPACE, "rollout", "status", what, "--timeout=20s")
    wait_for(f"the new pods of {what}", lambda: "successfully" in lab.kubectl(*status, check=False), 180)


def counter_of(node: str) -> dict[str, str]:
    """What Prometheus calls the CRC errors of a link of this node, and their agent's boot."""
    whose = f'{CRC} * on (job, instance) group_left (node, boot_id) remediator_agent_info{{node="{node}"}}'
    query = urllib.parse.urlencode({"query": whose})
    with urllib.request.urlopen(f"http://{CONTROL_PLANE}:{PROMETHEUS_PORT}/api/v1/query?{query}") as answer:
        (found,) = json.loads(answer.read())["data"]["result"]
    return {str(name): str(value) for name, value in found["metric"].items()}


def saved(job: Training) -> int:
    """The step of its newest checkpoint."""
    return max((int(path.stem[-8:]) for path in job.folder.glob("checkpoint-*.json")), default=0)


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
