"""Wrong settings, strangers at the door and a silent Slurm: a clear sentence, and no write while unsure."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.lab.api import Lab
from deploy.lab.slinky import tokens
from tests.e2e.helpers import ONE_OF_EACH, Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

UNKNOWN_YET = 503
TOKEN_FILE = "/var/run/secrets/slurm/SLURM_JWT"
EVENT = {"kind": "xid", "xid": 79, "pci": "0000:18:00", "raw": "NVRM: Xid (PCI:0000:18:00): 79, pid=1, gone"}


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


# --- settings ----------------------------------------------------------------------------------------


def test_a_typo_in_the_settings_is_said_in_a_line_and_ends_with_status_2(site: Site) -> None:
    kubectl, path = site.lab.kubectl, "/api/v1/namespaces/slurm/configmaps/remediator"
    right = site.lab.api.get(path)["data"]["settings.yaml"]
    line = 1 + right[: right.index("lease_namespace:")].count("\n")
    before = site.controller.pod()["metadata"]["uid"]
    put(site, right.replace("lease_namespace:", "lease_namespaces:"))
    try:
        kubectl("-n", "slurm", "rollout", "restart", "deployment/remediator")

        def status() -> int | None:
            return exit_code(site.controller.pod(), before)

        wait_for("the new pod's end", lambda: status() is not None, 120, every=0.2)
        assert status() == 2
        assert set(site.controller.lines()) == {
            f"error: /etc/remediator/settings.yaml:{line}: kubernetes.lease_namespaces: no such setting; "
            "did you mean `lease_namespace`?"
        }
    finally:
        put(site, right)
        site.controller.change("rollout", "restart", "deployment/remediator")


def put(site: Site, settings: str) -> None:
    """Write the service's ConfigMap."""
    patch = json.dumps({"data": {"settings.yaml": settings}})
    site.lab.kubectl("-n", "slurm", "patch", "configmap", "remediator", "--type=merge", "-p", patch)


def exit_code(pod: dict[str, Any], before: str) -> int | None:
    """How the container of the pod after `before` ended the last time; None while it has not."""
    statuses = pod.get("status", {}).get("containerStatuses", [])
    if not statuses or pod["metadata"]["uid"] == before:
        return None
    states = statuses[0].get("state", {}), statuses[0].get("lastState", {})
    return next((int(state["terminated"]["exitCode"]) for state in states if "terminated" in state), None)


# --- the agents' door --------------------------------------------------------------------------------


class Door:
    """POST /v1/signals with tokens as the API server issues them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.issued: list[str] = []

    def token(self, account: str, audience: str = "remediator", pod: str | None = None) -> str:
        """A token of an account, bound to a pod of it when one is named."""
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={pod}"] if pod else []
        create = ["-n", "slurm", "create", "token", account, f"--audience={audience}", *bound]
        self.issued.append(self._site.lab.kubectl(*create).strip())
        return self.issued[-1]

    def agent(self, node: str) -> str:
        """What the agent of a node holds."""
        return self.token("remediator-agent", pod=self._site.agent_on(node))

    def post(self, token: str | None, **changes: object) -> tuple[int, str]:
        """Status and error of a push by gpu-0 of XID 79, with changes to it."""
        events = [{"seq": 900_000, "seen_at": time.time(), "event": EVENT}]
        push = {"node": "gpu-0", "boot_id": "0b0075ab-0000-4000-8000-000000000000", "events": events}
        body = json.dumps(push | changes).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self._site.controller.url}/v1/signals", body, headers)
        status, said = self._send(request)
        while status == UNKNOWN_YET:  # the API server has not said in time whose token it is
            status, said = self._send(request)
        return status, said

    def _send(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with self._site.lab.visit_network(), urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


Push = Callable[[Door, Site], tuple[int, str]]
STRANGERS: dict[str, tuple[Push, int, str]] = {
    "no token": (lambda door, _: door.post(None), 401, "Authorization: Bearer TOKEN"),
    "an invented token": (lambda door, _: door.post("let-me-in-please"), 401, "not valid for this service"),
    "a token for somebody else": (
        lambda door, site: door.post(door.token("remediator-agent", "vault", site.agent_on("gpu-0"))),
        401,
        "not valid for this service",
    ),
    "another account": (
        lambda door, site: door.post(door.token("remediator", pod=site.controller.pod()["metadata"]["name"])),
        403,
        "http.agent_account",
    ),
    "a token of no pod": (
        lambda door, _: door.post(door.token("remediator-agent")),
        403,
        "not bound to a node",
    ),
    "another node": (lambda door, _: door.post(door.agent("gpu-1")), 403, "only speak of the node"),
    "an unknown node": (
        lambda door, _: door.post(door.agent("gpu-0"), node="gpu-99"),
        403,
        "only speak of the node",
    ),
    "a list of nodes": (
        lambda door, _: door.post(door.agent("gpu-0"), node="gpu-[0-3]"),
        403,
        "only speak of the node",
    ),
    "no events": (lambda door, _: door.post(door.agent("gpu-0"), events="many"), 400, '"field":"events"'),
    "an odd boot": (lambda door, _: door.post(door.agent("gpu-0"), boot_id="; ls"), 400, '"field":"boot_id"'),
}


def test_strangers_are_turned_away_with_a_reason_and_nothing_is_written(site: Site) -> None:
    servers, door = Servers(site.lab), Door(site)
    answers = {name: push(door, site) for name, (push, _, _) in STRANGERS.items()}
    for name, (_, status, says) in STRANGERS.items():
        assert answers[name][0] == status, name
        assert says in answers[name][1], name
    harmless = [{"seq": 900_001, "seen_at": time.time(), "event": EVENT | {"xid": 31}}]
    assert door.post(door.agent("gpu-0"), events=harmless) == (200, ""), "the door is not simply shut"
    assert site.controller.incidents("gpu-0") == []
    assert servers.writes() == 0
    assert_not_told(site, *door.issued)


def assert_not_told(site: Site, *secrets: str) -> None:
    """No log of any pod has one of these texts, or the telling part of one."""
    logs = [file for file in (site.lab.layout.logs / "pods").rglob("*.log") if file.is_file()]
    assert any("controller" in file.parts for file in logs)
    for secret in secrets:
        part = secret.rpartition(".")[2][:40]
        assert not [str(file) for file in logs if part in file.read_text(errors="replace")]


# --- Slurm does not answer ---------------------------------------------------------------------------


def sick_place(site: Site, job: Training) -> tuple[str, str]:
    """Once the job trains: its first worker, and that worker's node."""
    site.trains(job)
    worker = job.workers()[0]
    return worker, site.node_of(worker)


def drain_step(site: Site, node: str) -> dict[str, Any]:
    """How far the drain of a node's only incident has come; empty before it was tried."""
    for incident in site.controller.incidents(node):
        steps = {step["name"]: step for step in site.controller.story(incident["id"])["steps"]}
        return {**steps["drain-slurm"], "incident": incident["state"]}
    return {}


def test_nothing_is_written_while_slurmrestd_is_down_and_all_is_done_when_it_is_back(site: Site) -> None:
    job = site.train()
    worker, node = sick_place(site, job)
    servers = Servers(site.lab)
    site.lab.inject.kill("slurmrestd")
    try:
        site.lab.inject.xid(node, 79)

        def tries() -> int:
            return int(drain_step(site, node).get("facts", {}).get("tries", 0))

        wait_for("several attempts", lambda: tries() >= 3, 120, every=0.5)
        step = drain_step(site, node)
        assert (step["incident"], step["attempts"]) == ("open", 1)
        assert "slurmrestd does not accept connections" in step["sentence"]
        assert servers.writes() == 0
        assert job.is_running(0)
    finally:
        site.lab.inject.start("slurmrestd")
    site.moves(job)
    site.closes(node)
    assert servers.counts(worker, node, job.address) == ONE_OF_EACH
    assert job.terms() == {"0": 1, "1": 1}
    assert site.controller.audit()["ok"]


def expired(key: bytes) -> str:
    return tokens.issue(key, "slurm", lifetime=60, now=time.time() - 3600)


def forged(_key: bytes) -> str:
    return tokens.issue(b"another key of thirty-two bytes!", "slurm", lifetime=900, now=time.time())


@pytest.mark.parametrize("bad", [expired, forged])
def test_a_refused_slurm_token_is_named_by_its_file_and_never_shown(
    site: Site, bad: Callable[[bytes], str]
) -> None:
    job = site.train()
    servers = Servers(site.lab)
    token = bad((site.lab.layout.slurm_etc / "jwt.key").read_bytes())
    secret, content = f"token-{bad.__name__}", f"--from-literal=SLURM_JWT={token}"
    site.lab.kubectl("-n", "slurm", "create", "secret", "generic", secret, content)
    try:
        mount(site, secret)
        worker, node = sick_place(site, job)
        site.lab.inject.xid(node, 79)

        def said() -> str:
            return str(drain_step(site, node).get("sentence"))

        wait_for("an attempt that says why", lambda: TOKEN_FILE in said(), 120, every=0.5)
        assert servers.writes() == 0
        assert job.is_running(0)
        assert_not_told(site, token)
    finally:
        mount(site, "remediator-jwt-slurm")
        site.lab.kubectl("-n", "slurm", "delete", "secret", secret)
    site.moves(job)
    site.closes(node)
    assert servers.counts(worker, node, job.address) == ONE_OF_EACH


def mount(site: Site, secret: str) -> None:
    """Give the controller the Slurm token of a Secret; its pod is replaced."""
    volumes = [{"name": "slurm-token", "secret": {"secretName": secret}}]
    patch = json.dumps({"spec": {"template": {"spec": {"volumes": volumes}}}})
    site.controller.change("patch", "deployment/remediator", "-p", patch)
