"""The demo's course: each stage waits for something real and says what it saw."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy.lab.api import Lab
from deploy.lab.demo import breaks
from deploy.lab.demo.breaks import Break
from deploy.lab.slurm import chroot

JOB_FILES = Path(__file__).parent / "job"
STEPS = 400
FAULT_AFTER_STEP = 120
POLL_S = 0.2


class Failed(Exception):
    """A stage did not come to its end; the text names what was missing."""


@dataclass
class Result:
    """Everything the verdict is taken from."""

    job: str
    sick_node: str
    fault_at: float
    story: dict[str, Any] = field(default_factory=dict)
    trained: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)
    resumed_at: int = 0
    saved_at: int = 0


class Story:
    """One run of the demo in one lab."""

    def __init__(self, lab: Lab, console: Console, wanted: Break) -> None:
        self._lab = lab
        self._console = console
        self._break = wanted
        self._began = time.monotonic()

    def tell(self) -> Result:
        """Up, train, break, watch, verify; Failed names the stage that did not end."""
        self._lab.down()
        with self._stage("bringing up Kubernetes, Slurm and the service"):
            figures = self._lab.up()
        self._say(f"lab up in {max(figures.values()):.0f} s: 6 nodes, 4 Slurm workers with 8 GPUs each")
        shared = self._lab.layout.shared
        shutil.copytree(JOB_FILES, shared / "job", dirs_exist_ok=True)
        reference = self._start_reference()
        job = self._submit()
        run = shared / "job" / f"run-{job}"
        self._wait("the job to train", lambda: _step(run) >= FAULT_AFTER_STEP, 90)
        result = self._fault(job)
        self._watch(result, run)
        with self._stage("waiting for the job to finish"):
            self._wait("the job to finish", lambda: self._finished(job, run), 120)
        self._collect(result, run, reference)
        return result

    def _start_reference(self) -> subprocess.Popen[bytes]:
        """The same training without a fault, on the same Python and C library, beside the cluster."""
        environment = [f"STEPS={STEPS}", "STEP_SECONDS=0", "WORKDIR=/shared/reference"]
        command = chroot("env", *environment, "python3", "/shared/job/train.py", "--local-ranks", "2")
        return subprocess.Popen(
            self._lab.entry().argv(command),
            env=self._lab.layout.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _submit(self) -> str:
        answer = self._lab.slurm("sbatch", f"--export=ALL,STEPS={STEPS}", "/shared/job/train.sbatch")
        job = answer.split()[-1]
        self._say(f"job {job} submitted: an ordinary sbatch script, two nodes, {STEPS} steps")
        return job

    def _fault(self, job: str) -> Result:
        nodes = self._lab.slurm("squeue", "-h", "-j", job, "-o", "%N").strip()
        worker = self._lab.slurm("scontrol", "show", "hostnames", nodes).split()[0]
        pod = json.loads(self._lab.kubectl("-n", "slurm", "get", "pod", worker, "-o", "json"))
        node = str(pod["spec"]["nodeName"])
        self._say(f"job {job} trains on {nodes}; now GPU 3 of {node} ({worker}) falls off the bus")
        result = Result(job, node, time.time())
        self._lab.inject.xid(node, 79, gpu=3)
        return result

    def _watch(self, result: Result, run: Path) -> None:
        """Print each new line of the incident's timeline until it is closed."""
        shown = 0
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            story = self._story_of(result.sick_node)
            for line in story.get("timeline", [])[shown:]:
                self._line(line)
            shown = len(story.get("timeline", []))
            self._sabotage(result, run, story)
            if story.get("incident", {}).get("state") == "closed":
                result.story = story
                return
            time.sleep(POLL_S)
        raise Failed("requeue: the incident was not closed within 300 s")

    def _sabotage(self, result: Result, run: Path, story: dict[str, Any]) -> None:
        done = {step["name"] for step in story.get("steps", []) if step["state"] == "done"}
        if self._break is Break.RESUME and "release-jobs" in done:
            breaks.lose_checkpoints(run)
        if self._break is Break.REQUEUE and "prove-resume" in done:
            self._break = Break.NOTHING
            breaks.requeue_again(self._lab, result.job)

    def _finished(self, job: str, run: Path) -> bool:
        restarts = re.search(r"Restarts=(\d+)", self._lab.slurm("scontrol", "show", "job", job))
        if restarts and int(restarts[1]) > 1:
            raise Failed(f"requeue: job {job} was requeued {restarts[1]} times, not once")
        return (run / "result.json").exists()

    def _collect(self, result: Result, run: Path, reference: subprocess.Popen[bytes]) -> None:
        with self._stage("waiting for the uninterrupted run to compare with"):
            if reference.wait(timeout=120) != 0:
                raise Failed("reference: the uninterrupted run failed")
        if self._break is Break.AUDIT:
            breaks.tamper_with_the_record(self._lab)
        shared = self._lab.layout.shared
        result.trained = json.loads((run / "result.json").read_text())
        result.reference = json.loads((shared / "reference" / "result.json").read_text())
        result.audit = json.loads(self._lab.remediator("audit", "verify", "--json", check=False))
        events = [_event(line) for line in (run / "events.log").read_text().splitlines()]
        result.terms = {
            rank: sum(e["event"] == "TERM" and e["rank"] == rank for e in events) for rank in ("0", "1")
        }
        starts = [int(e["step"]) for e in events if e["event"] == "START" and e["restart"] == "1"]
        ends = [int(e["step"]) for e in events if e["event"] == "END" and e["restart"] == "0"]
        result.resumed_at, result.saved_at = min(starts, default=-1), max(ends, default=-1)

    def _story_of(self, node: str) -> dict[str, Any]:
        found = json.loads(self._lab.remediator("incidents", "list", "--json"))
        mine = [incident["id"] for incident in found if incident["node"] == node]
        if not mine:
            return {}
        story: dict[str, Any] = json.loads(self._lab.remediator("incidents", "show", mine[0], "--json"))
        return story

    def _wait(self, what: str, true: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise Failed(f"{what} took more than {seconds:.0f} s")
            time.sleep(POLL_S)

    @contextlib.contextmanager
    def _stage(self, text: str) -> Iterator[None]:
        with self._console.status(text):
            yield

    def _say(self, text: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(f"[dim][{seconds:5.1f} s][/dim] {text}", highlight=False)

    def _line(self, line: dict[str, Any]) -> None:
        text = f"  +{line['after']:7.2f} s  {line['what']:<16} {line['step']:<22} {line['why']}"
        self._console.print(text, highlight=False, markup=False)


def _step(run: Path) -> int:
    try:
        return int((run / "reached").read_text())
    except (OSError, ValueError):
        return 0


def _event(line: str) -> dict[str, str]:
    event, *fields = line.split()
    return {"event": event} | dict(part.partition("=")[::2] for part in fields)
