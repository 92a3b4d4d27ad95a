"""How a contract test acts on a cluster and waits, whichever cluster it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from remediator.clock import ManualClock
from slurm_bridge.model import Reservation, SlurmJob, SlurmNode
from slurm_bridge.port import SlurmPort
from tests.fakes.slurm import FakeSlurm
from tests.servers.slurm import SlurmServer, count_drains, count_requeues, wait_for

DEADLINE = 5.0


@dataclass(frozen=True)
class Spec:
    """A job to submit: `save` seconds from TERM to exit (inf: it is ignored), whole nodes or `gpus` of each.

    `nodes` is how many or which; `expedite` and `no_kill` are sbatch's `--requeue=expedite` and `--no-kill`;
    `fails`: it exits 1 by itself; `later`: it may start in 10 minutes.
    """

    save: float = 0.5
    nodes: int | str = 1
    fails: bool = False
    later: bool = False
    requeue: bool = True
    dependency: str = ""
    held: bool = False
    comment: str = ""
    expedite: bool = False
    no_kill: bool = False
    gpus: int = 0


class World(Protocol):
    """A cluster of gpu-0, gpu-1 and gpu-2."""

    @property
    def kill_wait(self) -> int: ...

    @property
    def min_job_age(self) -> int: ...

    @property
    def port(self) -> SlurmPort: ...

    def submit(self, spec: Spec) -> int: ...

    def submit_array(self, spec: Spec, tasks: tuple[int, ...]) -> int: ...

    def submit_het(self, spec: Spec) -> int: ...

    def submit_interactive(self) -> int: ...

    def until(self, what: str, check: Callable[[], object]) -> None: ...

    def drains(self, node: str) -> int: ...

    def downs(self, node: str) -> int: ...

    def requeues(self, address: str) -> int: ...

    def cancel(self, job_id: int) -> None: ...

    def submit_cron(self) -> int: ...

    def hold(self, job_id: int) -> None: ...

    def suspend(self, job_id: int) -> None: ...

    def requeue_by_owner(self, job_id: int) -> None: ...

    def release_by_owner(self, job_id: int) -> None: ...

    def is_up(self, job_id: int) -> bool: ...

    def has_saved(self, job_id: int) -> bool: ...

    def plan_maintenance(self, name: str, nodes: tuple[str, ...]) -> None: ...

    def end_reservation(self, name: str) -> None: ...

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


def started(world: World, spec: Spec) -> SlurmJob:
    """A job whose script has set its trap: Slurm says RUNNING before, when TERM would end it at once."""
    seen = running(world, world.submit(spec))
    world.until("its script", lambda: world.is_up(seen.job_id))
    return seen


def queued(world: World, job_id: int) -> SlurmJob:
    """Wait until the job is pending and its old processes are gone."""
    world.until(
        f"job {job_id} queued",
        lambda: (j := job(world, job_id)).state == "PENDING" and not j.is_completing,
    )
    return job(world, job_id)


class FakeWorld:
    """FakeSlurm; waiting moves the virtual clock."""

    kill_wait = 6
    min_job_age = 300

    def __init__(self, port: FakeSlurm, clock: ManualClock) -> None:
        self.port = port
        self._clock = clock

    def submit(self, spec: Spec) -> int:
        width = spec.nodes if isinstance(spec.nodes, int) else 1
        seconds = 0.2 if spec.fails else inf
        job_id = self.port.submit(
            replace(_record(spec), gpus=width * spec.gpus),
            width=width,
            save=spec.save,
            seconds=seconds,
            exit_code=int(spec.fails),
            no_kill=spec.no_kill,
        )
        if spec.later:
            self.port.delay(job_id, 600)
        return job_id

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

    def downs(self, node: str) -> int:
        return self.port.count("set_down", node)

    def requeues(self, address: str) -> int:
        return self.port.count("requeue", address)

    def cancel(self, job_id: int) -> None:
        self.port.cancel(job_id)

    def submit_cron(self) -> int:
        job_id = self.port.submit(replace(_record(Spec()), traits=frozenset({"CRON_JOB"})))
        self.port.delay(job_id, 86_400)
        return job_id

    def hold(self, job_id: int) -> None:
        self.port.hold(job_id)

    def suspend(self, job_id: int) -> None:
        self.port.suspend(job_id)

    def requeue_by_owner(self, job_id: int) -> None:
        self.port.requeue_by_owner(job_id)

    def release_by_owner(self, job_id: int) -> None:
        self.port.release(job_id)

    def is_up(self, job_id: int) -> bool:
        return job(self, job_id).state == "RUNNING"

    def has_saved(self, job_id: int) -> bool:
        return self.port.has_saved(job_id)

    def plan_maintenance(self, name: str, nodes: tuple[str, ...]) -> None:
        now, flags = self._clock.now(), frozenset({"MAINT", "IGNORE_JOBS", "SPEC_NODES"})
        self.port.add_reservation(Reservation(name, nodes, ("root",), flags, now, now + 3600))

    def end_reservation(self, name: str) -> None:
        found = self.port.reservation(name, deadline=DEADLINE)
        assert found is not None
        self.port.add_reservation(replace(found, end=self._clock.now() + 1))

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
        required_nodes=(spec.nodes,) if isinstance(spec.nodes, str) else (),
        comment=spec.comment,
        traits=frozenset({"EXPEDITED_REQUEUE"}) if spec.expedite else frozenset(),
    )


class RealWorld:
    """A real slurmctld behind slurmrestd; counts come from slurmctld's own log."""

    def __init__(self, port: SlurmPort, server: SlurmServer) -> None:
        self.port = port
        self.server = server
        self.kill_wait = server.kill_wait
        self.min_job_age = server.min_job_age
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
        wait_for(what, check, timeout=120, every=0.1)

    def drains(self, node: str) -> int:
        return count_drains(self._log(), node)

    def downs(self, node: str) -> int:
        return len(re.findall(rf"update_node: node {re.escape(node)} state set to DOWN\b", self._log()))

    def requeues(self, address: str) -> int:
        return count_requeues(self._log(), address)

    def cancel(self, job_id: int) -> None:
        self.server.run("scancel", str(job_id))

    def submit_cron(self) -> int:
        self.server.run("scrontab", "-", user="alice", stdin="#SCRON --exclusive\n0 0 1 1 * sleep 300\n")
        return int(self.server.run("squeue", "-h", "-u", "alice", "-t", "PENDING", "-o", "%A"))

    def hold(self, job_id: int) -> None:
        self.server.scontrol("hold", str(job_id))

    def suspend(self, job_id: int) -> None:
        self.server.scontrol("suspend", str(job_id))

    def requeue_by_owner(self, job_id: int) -> None:
        self.server.run("scontrol", "requeue", str(job_id), user="alice", check=False)

    def release_by_owner(self, job_id: int) -> None:
        self.server.run("scontrol", "release", str(job_id), user="alice")

    def is_up(self, job_id: int) -> bool:
        return (self.server.io / f"jobs/up-{job_id}").exists()

    def has_saved(self, job_id: int) -> bool:
        return (self.server.io / f"jobs/saved-{job_id}").exists()

    def plan_maintenance(self, name: str, nodes: tuple[str, ...]) -> None:
        self.server.scontrol(
            "create", "reservation", f"reservationname={name}", "starttime=now", "duration=60",
            "users=root", "flags=maint,ignore_jobs", f"nodes={','.join(nodes)}",
        )  # fmt: skip

    def end_reservation(self, name: str) -> None:
        self.server.scontrol("update", f"reservationname={name}", "endtime=now+1")

    def close(self) -> None:
        """Give up every job and place, then let the server come to rest."""
        self.server.run("scrontab", "-r", user="alice", check=False)
        wait_for("no reservations", self._is_unreserved, every=0.2)
        self.server.reset()

    def _is_unreserved(self) -> bool:
        self.server.run("scancel", "--state=RUNNING", "--signal=KILL", "--full", check=False)
        self.server.run("scancel", "--user=alice", check=False)
        for found in self.port.reservations(deadline=DEADLINE):
            self.server.run("scontrol", "delete", f"reservationname={found.name}", check=False)
        return not self.port.reservations(deadline=DEADLINE)

    def restart_ctld(self) -> None:
        self.server.restart_ctld()

    def _log(self) -> str:
        return self.server.ctld_log.read_bytes()[self._log_start :].decode()


def _options(spec: Spec) -> list[str]:
    where = [f"-N{spec.nodes}"] if isinstance(spec.nodes, int) else ["-N1", f"--nodelist={spec.nodes}"]
    options = [f"--gres=gpu:{spec.gpus}" if spec.gpus else "--exclusive", *where, "--job-name=train"]
    options += ["--requeue=expedite"] if spec.expedite else [] if spec.requeue else ["--no-requeue"]
    options += ["--no-kill"] if spec.no_kill else []
    options += [f"--dependency={spec.dependency}"] if spec.dependency else []
    options += ["--hold"] if spec.held else []
    options += ["--begin=now+600"] if spec.later else []
    return options + ([f"--comment={spec.comment}"] if spec.comment else [])


def _script(spec: Spec) -> str:
    if spec.fails:
        return "#!/bin/bash\nexit 1\n"
    handler = "" if spec.save == inf else f"sleep {spec.save}; touch saved-$SLURM_JOB_ID; exit 1"
    return f"#!/bin/bash\ntrap '{handler}' TERM\ntouch up-$SLURM_JOB_ID\nwhile :; do sleep 0.1; done\n"
