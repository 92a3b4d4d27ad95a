"""The pyslurm worker as a container beside the controller: for what REST cannot do, and alone."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.api import Lab
from deploy.lab.control import Part
from deploy.lab.slurm import chroot
from deploy.lab.spec import CONTROL_PLANE, SLURM_NAMESPACE
from slurm_bridge.pyslurm.backend import CANNOT
from tests.e2e.helpers import Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

SIDECAR = Path(__file__).parents[2] / "deploy/manifests/pyslurm/sidecar.yaml"
OLD = Part(
    "slurmrestd-44",
    chroot(
        "/usr/sbin/slurmrestd", "-u", "www-data", "-g", "www-data", "-d", "v0.0.44",
        "-s", "openapi/slurmctld,openapi/util", f"{CONTROL_PLANE}:6844",
    ),
    "/dev/null",
    {"SLURM_JWT": "daemon"},
)  # fmt: skip
"""A slurmrestd as of Slurm 25.11: it has no way to requeue."""
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SLURM_NAMESPACE}/deployments/remediator"


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    """A lab in order with the worker beside the controller, as its own image of Slurm's root."""
    with in_order(lab) as found:
        before = lab.api.get(DEPLOYMENT)["spec"]
        conf = lab.layout.slurm_etc / "slurm.conf"
        lab.kubectl(
            "-n",
            SLURM_NAMESPACE,
            "create",
            "configmap",
            "slurm-config",
            f"--from-literal=slurm.conf={conf.read_text()}",
        )
        lab.control.start(OLD)
        try:
            patch = SIDECAR.read_text()
            lab.kubectl("-n", SLURM_NAMESPACE, "patch", "deployment", "remediator", "--patch", patch)
            yield found
        finally:
            lab.control.stop(OLD.name, signal.SIGKILL)
            lab.kubectl("-n", SLURM_NAMESPACE, "delete", "configmap", "slurm-config")
            _put_back(lab, before)
            found.controller.wait()


def _put_back(lab: Lab, spec: dict[str, Any]) -> None:
    name = {
        "name": "remediator",
        "namespace": SLURM_NAMESPACE,
        "labels": {"app.kubernetes.io/name": "remediator"},
    }
    whole = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": name, "spec": spec}
    lab.kubectl("replace", "-f", "-", stdin=json.dumps(whole))


def use(site: Site, **settings: str) -> None:
    values = [f"REMEDIATOR_SLURM__{name.upper()}={value}" for name, value in settings.items()]
    site.controller.change("set", "env", "deployment/remediator", "-c", "controller", *values)


def doctor(site: Site) -> dict[str, dict[str, str]]:
    said = site.lab.kubectl(
        "-n", SLURM_NAMESPACE, "exec", "deploy/remediator", "-c", "controller", "--",
        "remediator", "doctor", "--json", check=False,
    )  # fmt: skip
    return {found["check"]: found for found in json.loads(said)}


def test_a_slurm_whose_rest_cannot_requeue_is_served_by_both_ways_together(site: Site) -> None:
    use(site, backend="auto", url=f"http://{CONTROL_PLANE}:6844")
    found = doctor(site)
    assert found["Slurm backend"]["says"].startswith("auto: REST, and pyslurm 25.11.2 on Python 3.")
    assert found["data_parser"] == {
        "check": "data_parser", "level": "ok", "says": "v0.0.44: requeues by pyslurm", "change": "",
    }  # fmt: skip

    servers = Servers(site.lab)
    victim = site.train(steps=150)
    site.trains(victim, step=20)
    sick = victim.workers()[0]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    wait_for("the result", (victim.folder / "result.json").exists, 120, every=0.2)
    site.closes(node)
    assert (servers.drains(sick), servers.requeues(victim.address), servers.requeue_writes()) == (1, 1, 0)
    assert victim.terms() == {"0": 1, "1": 1}
    assert json.loads((victim.folder / "result.json").read_text())["sha256"] == site.reference(150)
    assert site.controller.audit()["ok"]


def test_pyslurm_alone_holds_and_pages_what_it_cannot_do_and_does_the_rest(site: Site) -> None:
    use(site, backend="pyslurm")
    found = doctor(site)["Slurm backend"]
    assert found["level"] == "warn"
    assert all(what in found["says"] for what in CANNOT)

    servers = Servers(site.lab)
    array = site.train("--array=1", "-N1").address
    task = Training(site.lab, f"{array}_1")
    site.trains(task)
    (sick,) = task.workers()
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    why = CANNOT["requeue an array task"]
    wait_for("the hold", lambda: any(why in said for said in site.controller.unfinished()), 150, every=1.0)
    (incident,) = site.controller.incidents(node)
    assert incident["state"] == "held"
    told = site.controller.told
    wait_for(
        "the page", lambda: any(why in text for text in told(incident["id"], "operators")), 90, every=0.5
    )
    assert task.is_untouched()
    assert (servers.drains(sick), servers.requeues(task.address)) == (1, 0)

    site.lab.slurm("scontrol", "requeue", task.address)  # what runbooks/pyslurm.md says
    site.moves(task)
    site.closes(node)
    assert site.controller.audit()["ok"]
