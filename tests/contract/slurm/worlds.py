"""How a contract test acts on a cluster and waits, whichever cluster it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from remediator.clock import ManualClock
from slurm_bridge.model import SlurmJob, SlurmNode
from slurm_bridge.port import SlurmPort
from slurm_bridge.rest.backend import RestSlurm
from tests.fakes.slurm import FakeSlurm
from tests.servers.slurm import SlurmServer, count_drains, count_requeues, wait_for

DEADLINE = 5.0


@dataclass(frozen=True)
class Spec:
    """A job to submit: `save` seconds from TERM to exit (inf: TERM is ignored), whole nodes."""

    save: float = 0.5
    requeue: bool = True
    dependency: str = ""
    held: bool = False
    comment: str = ""


class World(Protocol):
    """A cluster of gpu-0, gpu-1 and gpu-2, KillWait 6."""

    @property
    def port(self) -> SlurmPort: ...

    def submit(self, spec: Spec) -> int: ...

    def submit_array(self, spec: Spec, tasks: tuple[int, ...]) -> int: ...

    def submit_het(self, spec: Spec) -> int: ...

    def submit_interactive(self) -> int: ...

    def until(self, what: str, check: Callable[[], object]) -> None: ...

    def drains(self, node: str) -> int: ...

    def requeues(self, address: str) -> int: ...

    def restart_ctld(self) -> None: ...


def job(world: World, job_id: int) -> SlurmJob:
    """The job's record, which must be there."""
    found = world.port.job(job_id, deadline=DEADLINE)
    assert found is not None
    return found


def node(world: World, name: str) -> SlurmNode:
    """The node's record, which must be there."""
    found = world.port.node(name, deadline=DEADLINE)
    assert found is not None
    return found


def running(world: World, job_id: int, restarts: int = 0) -> SlurmJob:
    """Wait until the job runs with this restart count."""
    world.until(
        f"job {job_id} running",
        lambda: (j := job(world, job_id)).state == "RUNNING" and j.restart_count == restarts,
    )
    return job(world, job_id)


def queued(world: World, job_id: int) -> SlurmJob:
    """Wait until the job is pending and its old processes are gone."""
    world.until(
        f"job {job_id} queued",
        lambda: (j := job(world, job_id)).state == "PENDING" and not j.is_completing,
    )
    return job(world, job_id)


class FakeWorld:
    """FakeSlurm; waiting moves the virtual clock."""

    def __init__(self, port: FakeSlurm, clock: ManualClock) -> None:
        self.port = port
        self._clock = clock

    def submit(self, spec: Spec) -> int:
        return self.port.submit(_record(spec), save=spec.save)

    def submit_array(self, spec: Spec, tasks: tuple[int, ...]) -> int:
        return self.port.submit_array(_record(spec), tasks, save=spec.save)

    def submit_het(self, spec: Spec) -> int:
        return self.port.submit_het(_record(spec), 2, save=spec.save)

    def submit_interactive(self) -> int:
        return self.port.submit(SlurmJob(job_id=0, state="PENDING", user="alice", requeue=True))

    def until(self, what: str, check: Callable[[], object]) -> None:
        for _ in range(600):
            if check():
                return
            self._clock.advance(0.1)
        raise TimeoutError(f"waited 60 virtual seconds for {what}")

    def drains(self, node: str) -> int:
        return self.port.count("drain", node)

    def requeues(self, address: str) -> int:
        return self.port.count("requeue", address)

    def restart_ctld(self) -> None:
        self._clock.advance(1.1)
        self.port.kill_ctld()


def _record(spec: Spec) -> SlurmJob:
    return SlurmJob(
        job_id=0,
        state="PENDING",
        name="train",
        user="alice",
        partition="gpu",
        batch=True,
        requeue=spec.requeue,
        held=spec.held,
        dependency=spec.dependency,
        comment=spec.comment,
    )


class RealWorld:
    """A real slurmctld behind slurmrestd; counts come from slurmctld's own log."""

    def __init__(self, port: RestSlurm, server: SlurmServer) -> None:
        self.port = port
        self.server = server
        self._log_start = server.ctld_log.stat().st_size

    def submit(self, spec: Spec) -> int:
        return self.server.sbatch(*_options(spec), script=_script(spec))

    def submit_array(self, spec: Spec, tasks: tuple[int, ...]) -> int:
        listed = ",".join(str(task) for task in tasks)
        return self.server.sbatch(*_options(spec), f"--array={listed}", script=_script(spec))

    def submit_het(self, spec: Spec) -> int:
        options = _options(spec)
        return self.server.sbatch(*options, ":", *options, script=_script(spec))

    def submit_interactive(self) -> int:
        self.server.run(
            "sh", "-c", "salloc --no-shell --exclusive -N1 -J salloc >/dev/null 2>&1", user="alice"
        )
        return int(self.server.run("squeue", "-h", "-n", "salloc", "-o", "%A").split()[-1])

    def until(self, what: str, check: Callable[[], object]) -> None:
        wait_for(what, check, timeout=60, every=0.1)

    def drains(self, node: str) -> int:
        return count_drains(self._log(), node)

    def requeues(self, address: str) -> int:
        return count_requeues(self._log(), address)

    def restart_ctld(self) -> None:
        self.server.restart_ctld()

    def _log(self) -> str:
        return self.server.ctld_log.read_bytes()[self._log_start :].decode()


def _options(spec: Spec) -> list[str]:
    options = ["--exclusive", "-N1", "--job-name=train"]
    options += [] if spec.requeue else ["--no-requeue"]
    options += [f"--dependency={spec.dependency}"] if spec.dependency else []
    options += ["--hold"] if spec.held else []
    return options + ([f"--comment={spec.comment}"] if spec.comment else [])


def _script(spec: Spec) -> str:
    handler = "" if spec.save == inf else f"sleep {spec.save}; exit 1"
    return f"#!/bin/bash\ntrap '{handler}' TERM\nwhile :; do sleep 0.1; done\n"
