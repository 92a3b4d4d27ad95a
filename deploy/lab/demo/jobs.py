"""The demo's jobs as their owners see them: submitted to Slurm, looked up there, and what each one logged."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.lab.api import Lab
from deploy.lab.slurm import chroot
from slurm_bridge.hostlist import expand

JOB_FILES = Path(__file__).parent / "job"
SCRIPT = "/shared/job/train.sbatch"
TRAINER = ("python3", "/shared/job/train.py")


@dataclass(frozen=True)
class Job:
    """Slurm's record of a job or array task; times in seconds since 1970, as whole as Slurm keeps them."""

    address: str
    job_id: int
    state: str
    reason: str
    restarts: int
    nodes: tuple[str, ...]
    priority: int
    started_at: int
    ended_at: int

    @classmethod
    def parse(cls, record: dict[str, Any]) -> Job:
        """From one entry of `scontrol show jobs --json`."""
        task = record["array_task_id"]
        number = record["job_id"]
        return cls(
            address=f"{record['array_job_id']['number']}_{task['number']}" if task["set"] else str(number),
            job_id=number,
            state=record["job_state"][0],
            reason=record["state_reason"],
            restarts=record["restart_cnt"],
            nodes=expand(record["nodes"]),
            priority=record["priority"]["number"],
            started_at=record["start_time"]["number"],
            ended_at=record["end_time"]["number"],
        )


class Run:
    """The folder of one training job: its own word on what happened to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reached(self) -> int:
        """Steps done; 0 before the first."""
        try:
            return int((self._folder / "reached").read_text())
        except (OSError, ValueError):
            return 0

    def result(self) -> dict[str, Any] | None:
        """What it wrote at its end; None before."""
        path = self._folder / "result.json"
        found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def events(self, kind: str, restart: int | None = None) -> list[dict[str, str]]:
        """START, TERM or END lines of one of its runs, or of all."""
        path = self._folder / "events.log"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [_event(line) for line in lines]
        return [one for one in found if one["event"] == kind and restart in (None, int(one["restart"]))]

    def lose_checkpoints(self) -> None:
        """Every checkpoint is gone."""
        for checkpoint in self._folder.glob("checkpoint-*.json"):
            checkpoint.unlink(missing_ok=True)


class Queue:
    """Slurm's front door, as a researcher uses it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._clients: list[subprocess.Popen[bytes]] = []
        shutil.copytree(JOB_FILES, lab.layout.shared / "job", dirs_exist_ok=True)

    def submit(self, *options: str, steps: int, pace: float) -> str:
        """The id of the training script, submitted unchanged; `pace` in seconds a step."""
        export = f"--export=ALL,STEPS={steps},STEP_SECONDS={pace}"
        return self._lab.slurm("sbatch", "--parsable", export, *options, SCRIPT).strip()

    def allocate(self, *options: str, steps: int, pace: float) -> None:
        """What a person does at a prompt: salloc, and a program in it."""
        settings = ("env", f"STEPS={steps}", f"STEP_SECONDS={pace}")
        self._clients.append(self._start(chroot(*settings, "salloc", *options, "srun", *TRAINER)))

    def reference(self, steps: int) -> subprocess.Popen[bytes]:
        """The same training without a fault, on the same Python and C library, beside the cluster."""
        settings = ("env", f"STEPS={steps}", "STEP_SECONDS=0", "WORKDIR=/shared/reference")
        return self._start(chroot(*settings, *TRAINER, "--local-ranks", "2"))

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._lab.entry().argv(command),
            env=self._lab.layout.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def jobs(self) -> dict[str, Job]:
        """Every job and started array task, by the name a user calls it."""
        shown = json.loads(self._lab.slurm("scontrol", "show", "jobs", "--json"))
        return {job.address: job for job in map(Job.parse, shown["jobs"])}

    def job(self, address: str) -> Job:
        """One of them; KeyError when Slurm does not know it."""
        return self.jobs()[address]

    def run(self, job: Job) -> Run:
        """Its folder."""
        return Run(self._lab.layout.shared / "job" / f"run-{job.job_id}")

    def reference_run(self) -> Run:
        """The folder of the uninterrupted run."""
        return Run(self._lab.layout.shared / "reference")

    def let_go(self, address: str) -> None:
        """The job may start from now on."""
        self._lab.slurm("scontrol", "update", f"jobid={address}", "starttime=now")

    def reservations(self) -> list[str]:
        """Names of all reservations there are."""
        shown = json.loads(self._lab.slurm("scontrol", "show", "reservations", "--json"))
        return [str(found["name"]) for found in shown["reservations"]]


def _event(line: str) -> dict[str, str]:
    event, *fields = line.split()
    return {"event": event} | dict(part.partition("=")[::2] for part in fields)
