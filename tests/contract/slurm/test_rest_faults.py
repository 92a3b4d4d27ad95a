"""REST on a real Slurm whose parts die, lose answers or speak an older version."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from remediator.clock import SystemClock
from remediator.errors import Ambiguous, Blocked, GiveUp, Retry
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import SlurmPort
from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, queued, running
from tests.servers.slurm import SlurmServer, count_refused_requeues, count_requests, wait_for
from tests.servers.wire import Reply, Request, forward, wire

pytestmark = pytest.mark.slurm
REASON = "remediator: inc-2 XID 79"
PLACE = "remediator_1kf3x0q2c-7p4m_7"


@pytest.fixture
def real(rest_backend: RestSlurm, slurm_server: SlurmServer) -> Iterator[RealWorld]:
    world = RealWorld(rest_backend, slurm_server)
    yield world
    world.close()


def over(url: str, server: SlurmServer) -> RestSlurm:
    token = server.token()
    return RestSlurm(url, "slurm", lambda: token, SystemClock())


def record(real: RealWorld, job_id: int) -> SlurmJob:
    found = real.port.job(job_id, deadline=DEADLINE)
    assert found is not None
    return found


def is_drained(slurm: SlurmPort, name: str) -> bool:
    node = slurm.node(name, deadline=DEADLINE)
    return node is not None and node.is_drain


def test_a_drain_whose_answer_is_lost_is_ambiguous_and_done_once(real: RealWorld) -> None:
    def lose(request: Request) -> Reply:
        reply = forward(real.server.socket, request)
        return Reply(drop=True) if request.method == "POST" else reply

    with wire(lose) as it, pytest.raises(Ambiguous):
        over(it.url, real.server).drain("gpu-0", REASON, deadline=DEADLINE)
    assert is_drained(real.port, "gpu-0")
    assert real.drains("gpu-0") == 1


def test_a_requeue_whose_answer_is_lost_is_ambiguous_and_done_once(real: RealWorld) -> None:
    job = running(real, real.submit(Spec()))

    def cut(request: Request) -> Reply:
        reply = forward(real.server.socket, request)
        return Reply(reply.status, reply.body, cut=10) if request.method == "POST" else reply

    with wire(cut) as it, pytest.raises(Ambiguous):
        over(it.url, real.server).requeue(job, deadline=DEADLINE)
    assert queued(real, job.job_id).restart_count == 1
    assert real.requeues(job.address) == 1


def test_the_older_parser_reads_the_same_and_cannot_requeue(real: RealWorld) -> None:
    job = running(real, real.submit(Spec()))

    def only_44(request: Request) -> Reply:
        return Reply(404, b"missing") if "/v0.0.45/" in request.path else forward(real.server.socket, request)

    with wire(only_44) as it:
        old = over(it.url, real.server)
        assert old.job(job.job_id, deadline=DEADLINE) == job
        names = {n.name for n in old.nodes(deadline=DEADLINE)}
        assert names == {"gpu-0", "gpu-1", "gpu-2"}
        assert old.node("nope", deadline=DEADLINE) is None
        old.drain("gpu-0", REASON, deadline=DEADLINE)
        assert is_drained(real.port, "gpu-0")
        with pytest.raises(Blocked, match=r"26\.05"):
            old.requeue(job, deadline=DEADLINE)


def test_the_older_parser_keeps_a_place_too(real: RealWorld) -> None:
    def only_44(request: Request) -> Reply:
        return Reply(404, b"missing") if "/v0.0.45/" in request.path else forward(real.server.socket, request)

    with wire(only_44) as it:
        old = over(it.url, real.server)
        old.reserve(PLACE, ("gpu-0",), ("alice",), 15, deadline=DEADLINE)
        old.resize_reservation(PLACE, ("gpu-0", "gpu-1"), deadline=DEADLINE)
        assert old.reservations(deadline=DEADLINE) == real.port.reservations(deadline=DEADLINE)
        waits = real.submit(Spec(later=True))
        old.set_job_reservation(waits, PLACE, deadline=DEADLINE)
        old.start_now(waits, deadline=DEADLINE)
        assert running(real, waits).reservation == PLACE
        old.set_job_reservation(waits, "", deadline=DEADLINE)
        old.delete_reservation(PLACE, deadline=DEADLINE)
        assert old.reservation(PLACE, deadline=DEADLINE) is None
        old.set_down("gpu-2", REASON, deadline=DEADLINE)
    seen = real.port.node("gpu-2", deadline=DEADLINE)
    assert seen is not None
    assert seen.is_down


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_place_whose_answer_is_lost_is_ambiguous_and_can_be_looked_up(real: RealWorld, method: str) -> None:
    def lose(request: Request) -> Reply:
        reply = forward(real.server.socket, request)
        return Reply(drop=True) if request.method == method else reply

    with wire(lose) as it:
        slurm = over(it.url, real.server)
        if method == "DELETE":
            slurm.reserve(PLACE, ("gpu-0",), ("alice",), 15, deadline=DEADLINE)
            with pytest.raises(Ambiguous):
                slurm.delete_reservation(PLACE, deadline=DEADLINE)
        else:
            with pytest.raises(Ambiguous):
                slurm.reserve(PLACE, ("gpu-0",), ("alice",), 15, deadline=DEADLINE)
        assert (slurm.reservation(PLACE, deadline=DEADLINE) is not None) is (method == "POST")


def test_a_requeue_forgotten_after_term_leaves_the_run_failed_and_open_to_another(real: RealWorld) -> None:
    """slurmctld saves at most every 5 s: what it acknowledged in between dies with it."""
    for _ in range(5):
        job, is_forgotten = requeue_and_kill(real)
        if is_forgotten:
            break
    else:
        pytest.fail("slurmctld saved every requeue before it was killed")
    real.until("the old run's end", lambda: record(real, job.job_id).is_over)
    failed = record(real, job.job_id)
    assert (failed.state, failed.run) == ("FAILED", job.run)
    real.port.requeue(failed, deadline=DEADLINE)
    assert queued(real, job.job_id).restart_count == 1


def requeue_and_kill(real: RealWorld) -> tuple[SlurmJob, bool]:
    """A job whose start slurmctld has saved, once it has its TERM and slurmctld was killed; and whether
    nothing was saved between: slurmctld leaves 5 s from one save to the next.
    """
    term = real.server.io / "jobs/term"
    term.unlink(missing_ok=True)
    script = "#!/bin/bash\ntrap 'touch /box/jobs/term; sleep 2; exit 1' TERM\ntouch up-$SLURM_JOB_ID\n"
    loop = "while :; do sleep 0.1; done\n"
    job = running(real, real.server.sbatch("--exclusive", "-N1", script=script + loop))
    real.until("its script", lambda: real.is_up(job.job_id))
    before = real.server.saved()
    real.server.scontrol("update", f"jobid={job.job_id}", "comment=mark")
    real.until("the save of its start", lambda: real.server.saved() != before)
    saved = real.server.saved()
    real.port.requeue(job, deadline=DEADLINE)
    wait_for("TERM", term.exists, every=0.01)
    real.server.kill("slurmctld", signal.SIGKILL)
    is_forgotten = real.server.saved() == saved
    time.sleep(1.1)
    real.server.start_ctld()
    return job, is_forgotten


def test_an_expired_token_gives_up(real: RealWorld) -> None:
    token = real.server.token(lifespan=1)
    time.sleep(2.1)
    expired = RestSlurm(real.server.url, "slurm", lambda: token, SystemClock())
    with pytest.raises(GiveUp, match="token refused") as raised:
        expired.drain("gpu-0", REASON, deadline=DEADLINE)
    assert token not in str(raised.value)
    assert not is_drained(real.port, "gpu-0")


def test_a_user_without_rights_gives_up(real: RealWorld) -> None:
    token = real.server.token("alice")
    alice = RestSlurm(real.server.url, "alice", lambda: token, SystemClock())
    with pytest.raises(GiveUp, match="refuses our user"):
        alice.drain("gpu-0", REASON, deadline=DEADLINE)


def test_a_restarted_slurmrestd_is_reached_again(real: RealWorld) -> None:
    real.port.ping(deadline=DEADLINE)
    real.server.kill("slurmrestd")
    with pytest.raises(Retry):
        real.port.ping(deadline=DEADLINE)
    real.server.start_rest()
    real.port.ping(deadline=DEADLINE)


def test_while_slurmctld_is_dead_nothing_is_known_and_no_requeue_is_sent(real: RealWorld) -> None:
    job = running(real, real.submit(Spec()))
    seen = len(real.server.rest_log.read_text())
    real.server.kill("slurmctld", signal.SIGTERM)  # SIGKILL would forget a job this young
    with pytest.raises(Retry):
        real.port.node(job.nodes[0], deadline=0.5)
    with pytest.raises(Retry):
        real.port.jobs(deadline=0.5)
    with pytest.raises(Retry):
        real.port.requeue(job, deadline=DEADLINE)
    real.server.start_ctld()
    assert running(real, job.job_id).run == job.run
    assert count_requests(real.server.rest_log.read_text()[seen:], "POST", "jobs/requeue") == 0


def test_an_abandoned_write_is_applied_when_slurmctld_returns(real: RealWorld) -> None:
    """Why a late write is Ambiguous for longer than its deadline."""
    real.server.kill("slurmctld")
    with pytest.raises(Ambiguous):
        real.port.drain("gpu-0", REASON, deadline=0.5)
    real.server.start_ctld()
    wait_for("the late drain", lambda: is_drained(real.port, "gpu-0"))


def test_a_frozen_slurmctld_is_unknown(real: RealWorld) -> None:
    real.server.kill("slurmctld", signal.SIGSTOP)
    try:
        with pytest.raises(Retry):
            real.port.nodes(deadline=0.5)
    finally:
        real.server.kill("slurmctld", signal.SIGCONT)
    wait_for("slurmctld", lambda: answers(real.port))


def answers(slurm: SlurmPort) -> bool:
    try:
        slurm.nodes(deadline=DEADLINE)
    except Retry:
        return False
    return True


def test_the_servers_logs_count_our_writes(real: RealWorld) -> None:
    rest_seen, ctld_seen = len(real.server.rest_log.read_text()), len(real.server.ctld_log.read_text())
    job = running(real, real.submit(Spec()))
    name = job.nodes[0]
    for _ in range(2):
        real.port.drain(name, REASON, deadline=DEADLINE)
        real.port.requeue(job, deadline=DEADLINE)
    queued(real, job.job_id)
    rest, ctld = real.server.rest_log.read_text()[rest_seen:], real.server.ctld_log.read_text()[ctld_seen:]
    assert (count_requests(rest, "POST", f"node/{name}"), real.drains(name)) == (2, 1)
    assert (count_requests(rest, "POST", "jobs/requeue"), real.requeues(job.address)) == (2, 1)
    assert count_refused_requeues(ctld, job.address) == 1
