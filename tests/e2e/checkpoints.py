"""The demo's job saves where an agent looks, and the service knows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from deploy.lab.api import Lab
from deploy.lab.spec import SLURM_NAMESPACE
from tests.e2e.helpers import Site, Training, wait_for

GLOB = "/shared/job/run-{job}/checkpoint-*.json"
_AGENT = {"AGENT_CHECKPOINT_GLOBS": GLOB, "AGENT_CHECKPOINT_EVERY_S": "1"}
_SERVICE = {"POOLS__TRAINING__CHECKPOINT_GLOB": GLOB}


@contextlib.contextmanager
def saves_seen(site: Site, **settings: str) -> Iterator[None]:
    """The agent of worker-3's node looks each second; `settings` of the service are given along with that."""
    agent = _AGENT | {"AGENT_CHECKPOINT_NODES": site.node_of("worker-3")}
    service = _SERVICE | settings
    try:
        _set(site.lab, "daemonset/remediator-agent", agent)
        _set(site.lab, "deployment/remediator", service)
        site.controller.wait()
        yield
    finally:
        _set(site.lab, "daemonset/remediator-agent", dict.fromkeys(agent))
        _set(site.lab, "deployment/remediator", dict.fromkeys(service))
        site.controller.wait()


def saved(job: Training) -> int:
    """The step of its newest checkpoint."""
    return max((int(path.stem[-8:]) for path in job.folder.glob("checkpoint-*.json")), default=0)


def _set(lab: Lab, what: str, variables: Mapping[str, str | None]) -> None:
    """Environment variables of a Deployment or DaemonSet (None: off again), and its new pods."""
    changes = [
        f"REMEDIATOR_{name}" + ("-" if value is None else f"={value}") for name, value in variables.items()
    ]
    lab.kubectl("-n", SLURM_NAMESPACE, "set", "env", what, *changes)
    status = ("-n", SLURM_NAMESPACE, "rollout", "status", what, "--timeout=20s")
    wait_for(f"the new pods of {what}", lambda: "successfully" in lab.kubectl(*status, check=False), 180)
