"""Reads over REST: what is believed, and what stays unknown."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from remediator.clock import SystemClock
from remediator.errors import BadInput, GiveUp, Retry
from slurm_bridge.model import ExitInfo
from slurm_bridge.rest.backend import RestSlurm
from tests.servers.wire import Reply, Request, reply_json, wire
from tests.unit.slurm.answers import JOB, NODE, PING, RESERVATION, error, number, slurmrestd, whole

DEADLINE = 5.0


def rest(url: str) -> RestSlurm:
    return RestSlurm(url, "slurm", lambda: "secret-token", SystemClock())


def test_a_whole_job_is_read() -> None:
    with wire(slurmrestd()) as it:
        job = rest(it.url).job(1, deadline=DEADLINE)
    assert job is not None
    assert job.nodes == ("gpu-0", "gpu-1")
    assert job.run == (1, 1795972139, 0)
    assert (job.array_job_id, job.array_task_id, job.het_job_id) == (None, None, None)
    assert job.exit == ExitInfo("SIGNALED", None, 15)


@pytest.mark.parametrize(
    ("detail", "gpus"),
    [
        (["gpu:8(IDX:0-7)", "gpu:8(IDX:0-7)"], 16),
        (["gpu:a100:4(IDX:0-1,3-4)"], 4),
        (["nic:1(IDX:0),gpu:tesla:2(IDX:0-1)"], 2),
        (["gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)"], 3),
        (["mygpu:3(IDX:0-2)"], 0),
        ([], 0),
        (None, None),
        ("gpu:8", None),
        ([None, "gpu:1(IDX:0)"], 1),
    ],
)
def test_a_jobs_gpus_are_those_it_has_on_all_its_nodes(detail: object, gpus: int | None) -> None:
    answer = reply_json(whole({"jobs": [{**JOB, "gres_detail": detail}]}))
    with wire(slurmrestd({"job/1": answer})) as it:
        job = rest(it.url).job(1, deadline=DEADLINE)
    assert job is not None
    assert job.gpus == gpus


def test_the_tasks_of_an_array_are_told_apart_by_their_own_id() -> None:
    """GET of the array's id brings all its tasks."""
    first = {**JOB, "job_id": 2, "array_job_id": number(1), "array_task_id": number(1)}
    last = {**JOB, "job_id": 1, "array_job_id": number(1), "array_task_id": number(2)}
    with wire(slurmrestd({"job/1": reply_json(whole({"jobs": [first, last]}))})) as it:
        job = rest(it.url).job(1, deadline=DEADLINE)
    assert job is not None
    assert job.address == "1_2"


def test_one_connection_serves_many_calls() -> None:
    with wire(slurmrestd()) as it:
        slurm = rest(it.url)
        for _ in range(5):
            slurm.ping(deadline=DEADLINE)
        assert (it.count("GET", "v0.0.45/ping/"), it.connections) == (6, 1)
        assert {r.headers["X-SLURM-USER-NAME"] for r in it.requests} == {"slurm"}


@pytest.mark.parametrize("reply", [Reply(last=True), Reply(hang_up=True)], ids=["says so", "says nothing"])
def test_a_connection_that_the_server_has_closed_is_not_used_again(reply: Reply) -> None:
    """Else the next write would be ambiguous though it was never sent."""
    closing = replace(reply_json(whole({"nodes": [NODE]})), last=reply.last, hang_up=reply.hang_up)
    with wire(slurmrestd({"node/gpu-0": closing})) as it:
        slurm = rest(it.url)
        slurm.node("gpu-0", deadline=DEADLINE)
        assert reply.last or it.hung_up.wait(DEADLINE)
        slurm.ping(deadline=DEADLINE)
        assert it.connections == 2


def test_calls_side_by_side_never_get_each_others_answers() -> None:
    """Each has a connection for itself, and gives it back to the next one."""

    def answer(request: Request) -> Reply:
        name = request.path.rpartition("/")[2].partition("?")[0]
        return reply_json(whole({"nodes": [{**NODE, "name": name}]} if name else PING))

    with wire(answer) as it, ThreadPoolExecutor(8) as threads:
        slurm = rest(it.url)
        slurm.ping(deadline=DEADLINE)
        names = [f"gpu-{n}" for n in range(200)]
        found = list(threads.map(lambda name: slurm.node(name, deadline=DEADLINE), names))
    assert [node.name if node else None for node in found] == names
    assert it.connections <= 8


def test_below_v0_0_45_only_the_version_of_the_configuration_is_known() -> None:
    with wire(slurmrestd(newest=44)) as it:
        config = rest(it.url).config(deadline=DEADLINE)
    assert (config.version, config.kill_wait, config.started_at) == ("26.05.5", None, None)


def test_a_slurm_older_than_25_11_is_refused() -> None:
    with wire(slurmrestd(newest=43)) as it, pytest.raises(GiveUp, match=r"25\.11"):
        rest(it.url).nodes(deadline=DEADLINE)


def test_an_upgraded_slurm_is_noticed() -> None:
    with wire(slurmrestd(newest=44)) as it:
        slurm = rest(it.url)
        assert slurm.config(deadline=DEADLINE).kill_wait is None
        it.answer = slurmrestd()
        assert slurm.config(deadline=DEADLINE).kill_wait == 120


def test_a_downgraded_slurm_is_noticed() -> None:
    with wire(slurmrestd()) as it:
        slurm = rest(it.url)
        slurm.ping(deadline=DEADLINE)
        it.answer = slurmrestd(newest=44)
        with pytest.raises(GiveUp, match="endpoint"):
            slurm.nodes(deadline=DEADLINE)
        assert len(slurm.nodes(deadline=DEADLINE)) == 2


def test_an_unknown_node_needs_the_whole_list_to_agree() -> None:
    """26.05 answers HTTP 200 with error number 0."""
    with wire(slurmrestd({"node/gpu-9": reply_json(error(0, "No error"))})) as it:
        assert rest(it.url).node("gpu-9", deadline=DEADLINE) is None
        assert it.count("GET", "/nodes/") == 1


def test_an_unknown_node_is_not_none_while_the_list_fails() -> None:
    special = {"node/gpu-9": reply_json(error(0)), "nodes/": reply_json(whole({"nodes": []}))}
    with wire(slurmrestd(special)) as it, pytest.raises(Retry):
        rest(it.url).node("gpu-9", deadline=DEADLINE)


def test_slurmctld_naming_the_node_invalid_is_none() -> None:
    with wire(slurmrestd({"node/gpu-9": reply_json(error(2018), 404)})) as it:
        assert rest(it.url).node("gpu-9", deadline=DEADLINE) is None


def test_an_unknown_job_is_none_only_with_slurms_own_number() -> None:
    with wire(slurmrestd({"job/7": reply_json(error(2017, jobs=[]), 404)})) as it:
        assert rest(it.url).job(7, deadline=DEADLINE) is None
        with pytest.raises(GiveUp):
            rest(it.url).job(8, deadline=DEADLINE)


def test_a_cluster_without_jobs_is_empty_but_an_empty_answer_is_not_a_cluster() -> None:
    hollow = {**whole({"jobs": []}), "last_update": number(0)}
    with wire(slurmrestd({"jobs/": reply_json(whole({"jobs": []}))})) as it:
        assert rest(it.url).jobs(deadline=DEADLINE) == ()
        it.answer = slurmrestd({"jobs/": reply_json(hollow)})
        with pytest.raises(Retry):
            rest(it.url).jobs(deadline=DEADLINE)


def test_a_reservation_is_read_from_the_list() -> None:
    """Asked by name, slurmrestd answers an unknown one and a failure alike."""
    with wire(slurmrestd()) as it:
        found = rest(it.url).reservation("maint_1", deadline=DEADLINE)
        assert rest(it.url).reservation("other", deadline=DEADLINE) is None
    assert found is not None
    assert (found.nodes, found.users) == (("gpu-0", "gpu-1"), ("root", "alice"))
    assert found.is_maintenance
    assert (found.start, found.end) == (1795972000.0, 1795975600.0)


def test_no_reservations_are_believed_only_from_slurmctld() -> None:
    hollow = {**whole({"reservations": []}), "last_update": number(0)}
    with wire(slurmrestd({"reservations/": reply_json(whole({"reservations": []}))})) as it:
        assert rest(it.url).reservations(deadline=DEADLINE) == ()
        it.answer = slurmrestd({"reservations/": reply_json(hollow)})
        with pytest.raises(Retry):
            rest(it.url).reservation("maint_1", deadline=DEADLINE)


HIDING = [{"name": ""}, {"node_list": None}, {"node_list": "gpu-[0-"}, {"flags": "MAINT"}]


@pytest.mark.parametrize("change", HIDING)
def test_a_reservation_nobody_can_read_makes_all_of_them_unknown(change: dict[str, object]) -> None:
    """It might be the maintenance that forbids an act."""
    odd = reply_json(whole({"reservations": [RESERVATION, {**RESERVATION, **change}]}))
    with wire(slurmrestd({"reservations/": odd})) as it, pytest.raises(Retry, match="cannot read"):
        rest(it.url).reservations(deadline=DEADLINE)


UNKNOWN = {
    "cut body": Reply(200, b'{"nodes": [' + b"x" * 200, cut=100),
    "half a body that is called whole": Reply(200, reply_json(whole({"nodes": [NODE]})).body[:300]),
    "no answer": Reply(drop=True),
    "garbage": Reply(200, b"\x00\xff<html>"),
    "not http": Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "200 with errors": reply_json({**whole({"nodes": [NODE]}), "errors": [{"error_number": 9999}]}),
    "no meta": reply_json({"nodes": [NODE], "errors": []}),
    "errors missing": reply_json({"nodes": [NODE], "meta": {}}),
    "empty list": reply_json(whole({"nodes": []})),
    "no list": reply_json(whole({})),
    "a list of numbers": reply_json(whole({"nodes": [1, 2]})),
    "another node": reply_json(whole({"nodes": [{**NODE, "name": "gpu-1"}]})),
    "no name": reply_json(whole({"nodes": [{**NODE, "name": ""}]})),
    "500": Reply(500, b""),
    "502 page": Reply(502, b"<html>bad gateway</html>"),
    "slurmctld away": reply_json(error(1800), 500),
    "redirect": Reply(302, b""),
    "deep json": Reply(200, b"[" * 100_000),
    "a list": reply_json([]),
    "throttled": Reply(429, b""),
}


@pytest.mark.parametrize("reply", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_answer_that_is_not_whole_is_never_a_node(reply: Reply) -> None:
    with wire(slurmrestd({"node/gpu-0": reply})) as it, pytest.raises(Retry):
        rest(it.url).node("gpu-0", deadline=DEADLINE)


@pytest.mark.parametrize("hostlist", ["gpu-[0-", "gpu-[9-1]", "gpu 1", "x[0-99999999]"])
def test_a_node_list_nobody_can_read_makes_all_jobs_unknown(hostlist: str) -> None:
    """The job would be missing from the survey of its node."""
    with wire(slurmrestd({"jobs/": reply_json(whole({"jobs": [JOB, {**JOB, "nodes": hostlist}]}))})) as it:  # noqa: SIM117
        with pytest.raises(Retry, match="cannot read"):
            rest(it.url).jobs(deadline=DEADLINE)


def test_wrong_types_in_a_record_are_absence() -> None:
    odd = {"name": "gpu-0", "state": 7, "reason": [], "boot_time": "soon", "slurmd_start_time": {"set": True}}
    with wire(slurmrestd({"node/gpu-0": reply_json(whole({"nodes": [odd]}))})) as it:
        node = rest(it.url).node("gpu-0", deadline=DEADLINE)
    assert node is not None
    assert (node.state, node.is_busy, node.reason, node.boot_time) == ("UNKNOWN", True, "", None)


def test_a_server_that_sends_a_byte_now_and_then_ends_at_the_deadline() -> None:
    drip = Reply(200, b"x" * 100_000, pace=0.01)
    with wire(slurmrestd({"nodes/": drip})) as it, pytest.raises(Retry, match="no complete answer"):
        rest(it.url).nodes(deadline=0.4)


def test_a_server_that_says_nothing_ends_at_the_deadline() -> None:
    with wire(slurmrestd({"nodes/": Reply(hold=60)})) as it, pytest.raises(Retry, match="no complete answer"):
        rest(it.url).nodes(deadline=0.3)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http+unix://%2Fnonexistent%2Frest.sock"])
def test_nobody_listening_is_retry(url: str) -> None:
    with pytest.raises(Retry, match="does not accept connections"):
        rest(url).ping(deadline=DEADLINE)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://slurm", ("slurm", 80)),
        ("http://slurm:6820/", ("slurm", 6820)),
        ("http://[::1]", ("::1", 80)),
        ("http://[fd00::6]:6820", ("fd00::6", 6820)),
    ],
)
def test_a_url_is_where_it_connects_to(
    url: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(address: tuple[str, int], timeout: float) -> None:
        tried.append((address, timeout <= DEADLINE))
        raise ConnectionRefusedError

    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(Retry, match="does not accept connections"):
        rest(url).ping(deadline=DEADLINE)
    assert set(tried) == {(address, True)}


@pytest.mark.parametrize(
    "url",
    ["https://x", "x:6820", "http://", "http://u:p@x", "http://x/api", "http://x:99999", "http+unix://"],
)
def test_a_url_it_cannot_use_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput, match=r"slurm\.url"):
        rest(url)


def test_slurmctld_silent_behind_slurmrestd_is_retry() -> None:
    silent = {"pings": [{"responding": False, "status": "Unable to contact slurm controller"}]}
    with (
        wire(slurmrestd({"ping/": reply_json(whole(silent))})) as it,
        pytest.raises(Retry, match="slurmctld"),
    ):
        rest(it.url).ping(deadline=DEADLINE)


def test_states_in_brief_are_read_by_each_records_own_id() -> None:
    brief = [
        {"job_id": "12", "state": ["FAILED"]},
        {"job_id": "5_1", "state": ["RUNNING", "COMPLETING"]},
        {"job_id": "7+1", "state": ["NODE_FAIL"]},
    ]
    with wire(slurmrestd({"jobs/state": reply_json(whole({"jobs": brief}))})) as it:
        found = rest(it.url).job_states(deadline=DEADLINE)
    assert found == ((12, "FAILED"), (5, "RUNNING"), (7, "NODE_FAIL"))


@pytest.mark.parametrize("job_id", ["", "all", None, 12, "_1"])
def test_a_state_of_no_job_makes_them_all_unknown(job_id: object) -> None:
    answer = reply_json(whole({"jobs": [{"job_id": job_id, "state": ["FAILED"]}]}))
    with wire(slurmrestd({"jobs/state": answer})) as it, pytest.raises(Retry):
        rest(it.url).job_states(deadline=DEADLINE)
