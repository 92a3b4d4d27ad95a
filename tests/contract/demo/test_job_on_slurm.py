"""The demo's unchanged sbatch script on a real Slurm, through one native requeue."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.servers.slurm import BOX, SlurmServer, slurm_root, wait_for

JOB = Path(__file__).parents[3] / "deploy" / "lab" / "demo" / "job"
STEPS = 300
SETTINGS = {"STEPS": str(STEPS), "STEP_SECONDS": "0.02", "CKPT_EVERY": "1000"}


def _submit(server: SlurmServer) -> tuple[int, Path]:
    """Put the job where the script expects it and submit it; its id and its folder seen from here."""
    shutil.copytree(JOB, server.io / "job")
    server.run("sh", "-c", f"mkdir -p /shared && ln -sfn {BOX}/job /shared/job && chown -R alice {BOX}/job")
    variables = ",".join(f"{name}={value}" for name, value in SETTINGS.items())
    arguments = ("sbatch", "--parsable", f"--export=ALL,{variables}", "/shared/job/train.sbatch")
    job = int(server.run(*arguments, user="alice"))
    return job, server.io / "job" / f"run-{job}"


def _words(folder: Path, event: str) -> list[dict[str, str]]:
    path = folder / "events.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines if line.startswith(f"{event} ")]


def _reached(folder: Path) -> int:
    return int((folder / "reached").read_text()) if (folder / "reached").exists() else 0


@pytest.mark.slurm
def test_requeued_job_saves_resumes_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    root = slurm_root()
    if root is None:
        pytest.skip("no Slurm root: run the project's setup first")
    server = SlurmServer(root, kill_wait=30)
    server.start()
    try:
        job, folder = _submit(server)
        wait_for("the job computing", lambda: _reached(folder) >= 20)
        server.scontrol("requeue", str(job))
        wait_for("both ranks' end", lambda: len(_words(folder, "END")) == 2)
        wait_for("PENDING", lambda: "JobState=PENDING" in server.scontrol("show", "job", str(job)))
        server.scontrol("update", f"jobid={job}", "starttime=now")
        wait_for("the result", (folder / "result.json").exists, timeout=60)
        result = json.loads((folder / "result.json").read_text())
        assert Counter(line["rank"] for line in _words(folder, "TERM")) == {"0": 1, "1": 1}
        starts = [line["step"] for line in _words(folder, "START") if line["restart"] == "1"]
    finally:
        server.stop()
    assert min(int(step) for step in starts) >= 20
    reference = tmp_path / "reference"
    environment = {**os.environ, **SETTINGS, "STEP_SECONDS": "0", "WORKDIR": str(reference)}
    subprocess.run([sys.executable, JOB / "train.py", "--local-ranks", "2"], env=environment, check=True)
    uninterrupted = json.loads((reference / "result.json").read_text())
    assert result == uninterrupted | {"restarts": 1, "starts": 2}
