"""What the demo presumes of Slurm: how its jobs read there, and who is first without a place kept."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deploy.lab.demo.jobs import Job
from tests.servers.slurm import SlurmServer, slurm_root, wait_for

pytestmark = pytest.mark.slurm
WHOLE = ("-N2", "--gres=gpu:8")
SCRIPT = "#!/bin/bash\nexec sleep 600\n"


@pytest.fixture
def server() -> Iterator[SlurmServer]:
    root = slurm_root()
    if root is None:
        pytest.skip("no Slurm root: run the project's setup first")
    found = SlurmServer(root)
    found.start()
    yield found
    found.stop()


def jobs(server: SlurmServer) -> dict[str, Job]:
    shown = json.loads(server.scontrol("show", "jobs", "--json"))
    return {job.address: job for job in map(Job.parse, shown["jobs"])}


def await_running(server: SlurmServer, address: str, restarts: int = 0) -> None:
    def running() -> bool:
        job = jobs(server).get(address)
        return job is not None and (job.state, job.restarts) == ("RUNNING", restarts)

    wait_for(f"job {address}", running, timeout=60)


def test_an_older_waiting_job_takes_a_requeued_ones_nodes_when_no_place_is_kept(server: SlurmServer) -> None:
    older = str(server.sbatch(*WHOLE, "--begin=now+3600", script=SCRIPT))
    victim = str(server.sbatch(*WHOLE, script=SCRIPT))
    array = str(server.sbatch("--array=1-2", "-N1", "--gres=gpu:4", script=SCRIPT))
    for address in (victim, f"{array}_1", f"{array}_2"):
        await_running(server, address)
    server.scontrol("update", f"jobid={older}", "starttime=now")
    wait_for("the older job to wait", lambda: jobs(server)[older].reason in {"Resources", "Priority"})
    seen = jobs(server)
    assert len(seen[victim].nodes) == 2
    assert seen[f"{array}_1"].nodes == seen[f"{array}_2"].nodes
    assert set(seen[f"{array}_1"].nodes).isdisjoint(seen[victim].nodes)
    assert seen[older].nodes == ()
    assert seen[older].priority >= seen[victim].priority

    sick = seen[victim].nodes[0]
    server.scontrol("update", f"nodename={sick}", "state=drain", "reason=test")
    server.scontrol("requeue", victim)
    # Not COMPLETING any more: before that a new start time would be overwritten.
    wait_for("PENDING", lambda: "JobState=PENDING" in server.scontrol("show", "job", victim))
    server.scontrol("update", f"jobid={victim}", "starttime=now")
    server.scontrol("update", f"nodename={sick}", "state=resume")
    await_running(server, older)
    assert jobs(server)[victim].state == "PENDING"
    server.run("scancel", older)
    await_running(server, victim, restarts=1)
    ended = jobs(server)
    assert ended[older].ended_at <= ended[victim].started_at
