"""The states that a real slurmctld shows, in each form in which it writes them: field cases O11 and O12."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from remediator.actuators.scheduler import Scheduler
from remediator.clock import SystemClock
from remediator.guard import open_guard
from remediator.model.plan import Done
from remediator.workflow.steps.await_empty import AwaitEmpty
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from slurm_bridge.states import node_state
from tests.contract.slurm.conftest import rest_of
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, job, node, running, started
from tests.servers.slurm import SlurmServer, serve
from tests.unit.workflow.bench import Bench

pytestmark = pytest.mark.slurm

REASON = "remediator: inc-1 XID 79"
SLEEP = "#!/bin/bash\nsleep 300\n"
POWERS = """\
RebootProgram=/bin/true
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=100000
SlurmctldParameters=power_save_interval=1000
"""
"""It can reboot nodes and switch them off; not by itself, and not before these tests are over."""


@pytest.fixture
def real() -> Iterator[RealWorld]:
    """A Slurm for each test: a node that is to be switched off is not idle again soon."""
    for server in serve(extra=POWERS):
        yield RealWorld(rest_of(server), server)


def written(world: RealWorld, name: str) -> list[tuple[str, frozenset[str]]]:
    """The node as scontrol and sinfo write it: one text, a list, and sinfo's long and short word."""
    text = world.server.scontrol("show", "node", name)
    (state,) = re.findall(r" State=(\S+)", text)
    (listed,) = json.loads(world.server.scontrol("show", "node", name, "--json"))["nodes"]
    words = world.server.run("sinfo", "-h", "-n", name, "-o", "%T %t").split()
    return [node_state(raw) for raw in (state, listed["state"], *words)]


def assert_shows(world: RealWorld, name: str, base: str, *flags: str) -> None:
    """REST's list, text and JSON say the same. sinfo's words may say less, and never hide what keeps jobs
    away; the answer about one node may call a shared one ALLOCATED.
    """
    (seen,) = (one for one in world.port.nodes(deadline=DEADLINE) if one.name == name)
    assert (seen.state, seen.flags) == (base, frozenset({*flags, "DYNAMIC_NORM"}))
    text, listed, *words = written(world, name)
    assert text == listed == (seen.state, seen.flags)
    alone = node(world, name)
    assert alone.flags == seen.flags
    assert alone.state == seen.state or (seen.state, alone.state) == ("MIXED", "ALLOCATED")
    for word, known in words:
        short = SlurmNode(name, word, known)
        assert known <= seen.flags
        assert (short.is_drain, short.is_silent) == (seen.is_drain, seen.is_silent)
        assert short.is_busy or not seen.is_busy


def is_drained(world: RealWorld, name: str) -> bool:
    """What the step that waits for the machine's last job makes of it."""
    context = Bench(slurm_nodes=(name,)).see()
    scheduler = Scheduler(world.port, open_guard(SystemClock()))
    return isinstance(
        AwaitEmpty().check(replace(context, ports=replace(context.ports, slurm=scheduler))), Done
    )


def small(world: RealWorld, name: str) -> int:
    """A running job that leaves most of its node free."""
    job_id = world.server.sbatch("-n1", f"--nodelist={name}", script=SLEEP)
    running(world, job_id)
    return job_id


def test_draining_is_not_drained_until_the_last_process_is_gone(real: RealWorld) -> None:
    """O11 (1), and DOWN, where the jobs decide."""
    whole, part = started(real, Spec(save=3, nodes="gpu-1")).job_id, small(real, "gpu-2")
    for name in ("gpu-0", "gpu-1", "gpu-2"):
        real.port.drain(name, REASON, deadline=DEADLINE)
    assert_shows(real, "gpu-0", "IDLE", "DRAIN")
    assert_shows(real, "gpu-1", "ALLOCATED", "DRAIN")
    assert_shows(real, "gpu-2", "MIXED", "DRAIN")
    assert [is_drained(real, name) for name in ("gpu-0", "gpu-1", "gpu-2")] == [True, False, False]

    real.cancel(whole)
    real.until("its saving", lambda: "COMPLETING" in node(real, "gpu-1").flags)
    assert_shows(real, "gpu-1", "IDLE", "COMPLETING", "DRAIN")
    assert not is_drained(real, "gpu-1")
    real.until("the end of its processes", lambda: is_drained(real, "gpu-1"))
    assert real.has_saved(whole)

    real.port.set_down("gpu-2", REASON, deadline=DEADLINE)
    assert_shows(real, "gpu-2", "DOWN", "DRAIN")
    found = real.port.job(part, deadline=DEADLINE)
    assert found is not None
    assert (found.holds_nodes, is_drained(real, "gpu-2")) == (False, True)


def test_a_node_that_is_about_to_be_switched_off_is_not_drained(real: RealWorld) -> None:
    """O11 (1): idle, or with a job on it."""
    small(real, "gpu-2")
    for name in ("gpu-0", "gpu-2"):
        real.port.drain(name, REASON, deadline=DEADLINE)
        real.server.scontrol("update", f"nodename={name}", "state=power_down")
    assert_shows(real, "gpu-0", "IDLE", "DRAIN", "POWER_DOWN")
    assert_shows(real, "gpu-2", "MIXED", "DRAIN", "POWER_DOWN")
    assert [is_drained(real, name) for name in ("gpu-0", "gpu-1", "gpu-2")] == [False, True, False]


def test_flags_beside_the_state_are_kept_in_every_form(real: RealWorld) -> None:
    """O12 (1), (3): a silent node, one under maintenance, one that fails, one that is to be rebooted."""
    real.plan_maintenance("fans", ("gpu-1",))
    real.until("the maintenance", lambda: "MAINTENANCE" in node(real, "gpu-1").flags)
    assert_shows(real, "gpu-1", "IDLE", "MAINTENANCE", "RESERVED")
    small(real, "gpu-2")
    real.server.scontrol("reboot", "asap", "gpu-2")
    assert_shows(real, "gpu-2", "MIXED", "DRAIN", "REBOOT_REQUESTED")
    real.server.scontrol("update", "nodename=gpu-0", "state=noresp")
    assert_shows(real, "gpu-0", "IDLE", "NOT_RESPONDING")
    assert node(real, "gpu-0").is_silent


@pytest.mark.parametrize("by", ["rest", "pyslurm"])
def test_a_shared_node_is_seen_as_it_is_whoever_listed_all_nodes_before(real: RealWorld, by: str) -> None:
    """Slurm counts the cores in use when all nodes are listed, and tells of one node by that count."""
    port = real.port if by == "rest" else pyslurm_of(real.server)
    states = []
    for _ in range(2):
        job_id = small(real, "gpu-2")
        real.port.nodes(deadline=DEADLINE)
        states.append(state_of(port, "gpu-2"))
        real.cancel(job_id)
        real.until("its end", lambda job_id=job_id: not job(real, job_id).holds_nodes)  # type: ignore[misc]
        states.append(state_of(port, "gpu-2"))
    small(real, "gpu-2")
    real.port.nodes(deadline=DEADLINE)
    real.port.set_down("gpu-2", REASON, deadline=DEADLINE)
    states.append(state_of(port, "gpu-2"))
    assert states == [*("busy", "IDLE") * 2, "DOWN"]


def state_of(port: SlurmPort, name: str) -> str:
    """What the answer about this node says, busy in whatever way being one."""
    found = port.node(name, deadline=DEADLINE)
    assert found is not None
    return "busy" if found.is_busy else found.state


def pyslurm_of(server: SlurmServer) -> SlurmPort:
    token = server.token()
    return PyslurmSlurm(Channel(server.pyslurm_socket(), lambda: token, SystemClock()))
