"""The demo's course: each stage waits for something real and says what it saw."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deploy.lab.api import Lab
from deploy.lab.demo import breaks
from deploy.lab.demo.breaks import Break
from deploy.lab.demo.jobs import Queue, Run
from deploy.lab.demo.screen import Screen
from deploy.lab.demo.verdict import Bystander, Result, harm
from deploy.lab.slinky.model import POD_PROTECT
from deploy.lab.spec import NODES, SLURM_NAMESPACE, SPARE_TAINT, WORKERS

STEPS, PACE_S = 500, 0.05
OLDER_STEPS = 40
FAULT_AFTER_STEP = 120
ENDLESS, SLOW_S = 1_000_000, 0.5
HALF_A_NODE = ("-N1", "--gres=gpu:4", "--exclude=worker-0,worker-1")
POLL_S = 0.2
CLAIM_S = 45.0
CLOSE_S = 300.0


class Failed(Exception):
    """A stage did not come to its end; the text names what was missing."""


@dataclass(frozen=True)
class Cast:
    """Slurm's ids of everybody, and what the bystanders are."""

    older: str
    victim: str
    bystanders: dict[str, str]

    def titles(self) -> dict[str, str]:
        """What each job is, in the order of their ids."""
        names = {
            self.older: "older, two whole nodes",
            self.victim: "the one whose node will fail, two whole nodes",
        }
        return dict(sorted((names | self.bystanders).items()))


class Story:
    """One run of the demo in one lab."""

    def __init__(self, lab: Lab, screen: Screen, wanted: Break) -> None:
        self._lab = lab
        self._screen = screen
        self._break = wanted
        self._spare = next(node.name for node in NODES if SPARE_TAINT in node.taints)

    def tell(self) -> Result:
        """Up, train, break, watch, verify; Failed names the stage that did not end."""
        self._screen.chapter("A cluster in use")
        with self._screen.busy("bringing up Kubernetes, Slurm and the service"):
            seconds = max(self._lab.up().values())
        gpu_nodes = f"{WORKERS} Slurm workers with 8 GPUs each, spare {self._spare}"
        self._screen.say(f"lab up in {seconds:.0f} s: real Kubernetes, real Slurm, {gpu_nodes}")
        queue = Queue(self._lab)
        reference = queue.reference(STEPS)
        with self._screen.busy("jobs of several people fill the cluster"):
            cast = self._fill(queue)
        result = self._fault(queue, cast)
        self._watch(queue, result)
        self._screen.chapter("Afterwards")
        self._finish(queue, result)
        self._wait("the uninterrupted run to end", lambda: reference.poll() is not None, 120)
        self._collect(queue, result, cast)
        return result

    # --- before the fault

    def _fill(self, queue: Queue) -> Cast:
        """An older job that has to wait, two workers shared by others, two for the job that will suffer."""
        older = queue.submit("--job-name=older", "--begin=now+3600", steps=OLDER_STEPS, pace=PACE_S)
        alone = queue.submit("--job-name=norequeue", "--no-requeue", *HALF_A_NODE, steps=ENDLESS, pace=SLOW_S)
        array = queue.submit("--job-name=array", "--array=1-2", *HALF_A_NODE, steps=ENDLESS, pace=SLOW_S)
        queue.allocate("--job-name=prompt", *HALF_A_NODE, steps=ENDLESS, pace=SLOW_S)
        self._wait("the smaller jobs to start", lambda: len(self._running(queue)) == 4, 120)
        (prompt,) = (one for one in self._running(queue) if one != alone and not one.startswith(f"{array}_"))
        victim = queue.submit(steps=STEPS, pace=PACE_S)
        self._wait("the larger job to start", lambda: victim in self._running(queue), 120)
        bystanders = {
            alone: "Requeue=0",
            f"{array}_1": "array task",
            f"{array}_2": "array task",
            prompt: "salloc",
        }
        cast = Cast(older, victim, bystanders)
        self._make_wait(queue, cast)
        self._wait("every job to train", lambda: self._train(queue, cast), 150)
        jobs = queue.jobs()
        self._screen.queue((title, jobs[address]) for address, title in cast.titles().items())
        return cast

    def _running(self, queue: Queue) -> list[str]:
        return [address for address, job in queue.jobs().items() if job.state == "RUNNING"]

    def _make_wait(self, queue: Queue, cast: Cast) -> None:
        """The older job may start now, ranks first, and finds no two nodes free."""
        queue.let_go(cast.older)
        waits = {"Resources", "Priority"}
        self._wait("the older job to wait for nodes", lambda: queue.job(cast.older).reason in waits, 90)
        older, victim = queue.job(cast.older), queue.job(cast.victim)
        if older.priority < victim.priority:  # among equals Slurm takes the older one first
            raise Failed(f"queue: the older job has priority {older.priority}, the other {victim.priority}")

    def _train(self, queue: Queue, cast: Cast) -> bool:
        jobs = queue.jobs()
        others = all(queue.run(jobs[address]).reached() >= 1 for address in cast.bystanders)
        victim = jobs[cast.victim]
        # Slinky protects a busy worker's pod some seconds late; most faults come later than that.
        protected = all(self._pod(worker)["labels"].get(POD_PROTECT) == "true" for worker in victim.nodes)
        return others and protected and queue.run(victim).reached() >= FAULT_AFTER_STEP

    # --- the fault and the answer

    def _fault(self, queue: Queue, cast: Cast) -> Result:
        victim = queue.job(cast.victim)
        worker = victim.nodes[0]
        node = self._pod(worker)["node"]
        if self._break is Break.SPARE:
            breaks.cordon(self._lab, self._spare)
        self._screen.chapter(f"GPU 3 of {node} ({worker}) falls off the bus under job {cast.victim}")
        before = frozenset(victim.nodes)
        result = Result(node, self._spare, worker, time.time(), before, victim, queue.job(cast.older))
        jobs = queue.jobs()
        result.steps_before = [queue.run(jobs[address]).reached() for address in cast.bystanders]
        self._lab.inject.xid(node, 79, gpu=3)
        return result

    def _watch(self, queue: Queue, result: Result) -> None:
        """Print each new line of the incident's timeline until it is closed."""
        shown, incident = 0, ""
        with self._screen.busy("waiting for the service to notice") as tell:
            while time.time() < result.fault_at + CLOSE_S:
                incident = incident or self._incident_of(result.sick_node)
                story = self._remediator("incidents", "show", incident, "--json") if incident else {}
                shown = self._show(story.get("timeline", []), shown, tell)
                self._sabotage(queue, result, story)
                self._demand_spare(result, story)
                if story.get("incident", {}).get("state") == "closed":
                    result.story = story
                    result.reservations = tuple(queue.reservations())
                    return
                time.sleep(POLL_S)
        raise Failed(f"the incident was not closed within {CLOSE_S:.0f} s: {_open_steps(story)}")

    def _show(self, lines: list[dict[str, Any]], shown: int, tell: Callable[[str], None]) -> int:
        """Each line once: an attempt that is repeated says the same again."""
        said = [(line["what"], line["step"], line["why"]) for line in lines]
        for at, line in enumerate(lines[shown:], shown):
            if line["what"] == "wait":
                tell(line["why"])
            if said[at] not in said[:at] and line["what"] != "incident-closed":  # says what `close` said
                self._screen.step(line)
        return len(lines)

    def _demand_spare(self, result: Result, story: dict[str, Any]) -> None:
        claim = next((step for step in story.get("steps", []) if step["name"] == "claim-spare"), None)
        if claim and claim["state"] != "done" and time.time() > result.fault_at + CLAIM_S:
            raise Failed(f"spare: none was claimed within {CLAIM_S:.0f} s: {claim['sentence']}")

    def _sabotage(self, queue: Queue, result: Result, story: dict[str, Any]) -> None:
        done = {step["name"]: step["facts"] for step in story.get("steps", []) if step["state"] == "done"}
        moments = {Break.RESUME: "release-jobs", Break.QUEUE: "start-jobs", Break.REQUEUE: "prove-resume"}
        if moments.get(self._break) not in done:
            return
        if self._break is Break.RESUME:
            queue.run(result.victim).lose_checkpoints()
        elif self._break is Break.QUEUE:
            breaks.give_the_place_away(self._lab, result.victim.address, done["hold-place"]["place"])
        else:
            breaks.requeue_again(self._lab, result.victim.address)
        self._break = Break.NOTHING

    # --- afterwards

    def _finish(self, queue: Queue, result: Result) -> None:
        victim, older = result.victim.address, result.older.address
        with self._screen.busy(f"waiting for job {victim} to finish"):
            self._wait(f"job {victim} to finish", lambda: self._finished(queue, result), 240)
        self._screen.say(f"job {victim} has finished; its nodes are free for job {older}")
        with self._screen.busy(f"waiting for job {older} to start"):
            self._wait(f"queue: job {older} to start", lambda: queue.run(queue.job(older)).reached() > 0, 150)
        self._screen.say(f"job {older} trains on {', '.join(queue.job(older).nodes)}")

    def _finished(self, queue: Queue, result: Result) -> bool:
        job = queue.job(result.victim.address)
        if job.restarts > 1:
            raise Failed(f"requeue: job {job.address} was requeued {job.restarts} times, not once")
        return job.state == "COMPLETED"

    def _collect(self, queue: Queue, result: Result, cast: Cast) -> None:
        if self._break is Break.AUDIT:
            breaks.tamper_with_the_record(self._lab)
        jobs = queue.jobs()
        result.victim, result.older = jobs[cast.victim], jobs[cast.older]
        run = queue.run(result.victim)
        result.trained = _needed(run, "the job")
        result.reference = _needed(queue.reference_run(), "the uninterrupted run")
        result.audit = self._remediator("audit", "verify", "--json")
        for event in run.events("START", 0):
            rank = event["rank"]
            result.terms[rank] = sum(term["rank"] == rank for term in run.events("TERM"))
        result.resumed_at = min((int(event["step"]) for event in run.events("START", 1)), default=-1)
        result.saved_at = max((int(event["step"]) for event in run.events("END", 0)), default=-1)
        result.worker_is_on = self._pod(result.moved_worker)["node"]
        result.bystanders = tuple(
            Bystander(f"job {address} ({what})", harm(jobs[address], queue.run(jobs[address]), reached))
            for (address, what), reached in zip(cast.bystanders.items(), result.steps_before, strict=True)
        )

    # --- looking

    def _pod(self, worker: str) -> dict[str, Any]:
        pod = self._lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods/{worker}")
        return {"labels": pod["metadata"].get("labels", {}), "node": pod["spec"].get("nodeName", "")}

    def _incident_of(self, node: str) -> str:
        found = json.loads(self._lab.remediator("incidents", "list", "--json"))
        return next((str(incident["id"]) for incident in found if incident["node"] == node), "")

    def _remediator(self, *arguments: str) -> dict[str, Any]:
        """An answer, whatever the exit status: a broken record is an answer too."""
        try:
            found: dict[str, Any] = json.loads(self._lab.remediator(*arguments, check=False))
        except ValueError:
            raise Failed(f"`remediator {' '.join(arguments)}` gives no answer") from None
        return found

    def _wait(self, what: str, true: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise Failed(f"{what} took more than {seconds:.0f} s")
            time.sleep(POLL_S)


def _needed(run: Run, whose: str) -> dict[str, Any]:
    found = run.result()
    if found is None:
        raise Failed(f"resume: {whose} left no result")
    return found


def _open_steps(story: dict[str, Any]) -> str:
    steps = [step for step in story.get("steps", []) if step["state"] != "done"]
    return (
        "; ".join(f"{step['name']}: {step['sentence'] or step['state']}" for step in steps) or "no incident"
    )
