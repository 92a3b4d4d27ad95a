"""The checks against a real slurmctld, slurmrestd and kube-apiserver, well set and broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remediator.clock import Clock, ManualClock, SystemClock
from remediator.run.doctor import kubernetes, slurm
from remediator.run.doctor.examine import examine
from remediator.run.doctor.finding import Finding
from remediator.run.doctor.site import Site
from remediator.settings import Cluster, Kubernetes, Pool, Settings, Slurm
from slurm_bridge.rest.backend import RestSlurm
from slurm_bridge.rest.token import FileToken
from tests.servers.kube import KubeServer
from tests.servers.slurm import SlurmServer, serve, wait_for


def of_slurm(server: SlurmServer, folder: Path, *, user: str = "slurm", lifespan: int = 3600) -> Site:
    token = folder / "token"
    token.write_text(server.token(user, lifespan))
    settings = Settings(
        cluster=Cluster(name="test"),
        slurm=Slurm(url="http://unused:1", token_path=token),
        pools={"gpu": Pool(node_selector={"test": "1"})},
    )
    rest = RestSlurm(server.url, "slurm", FileToken(token), SystemClock())
    return Site(settings, rest, SystemClock(), rest)


def of_kube(server: KubeServer, user: str, clock: Clock | None = None) -> Site:
    settings = Settings(
        cluster=Cluster(name="test"),
        slurm=Slurm(url="http://127.0.0.1:1"),
        kubernetes=Kubernetes(kubeconfig=server.kubeconfig(user), lease_namespace="default"),
        pools={"gpu": Pool(node_selector={"test": "1"}, stage="full")},
    )
    clock = clock or SystemClock()
    rest = RestSlurm("http://127.0.0.1:1", "slurm", lambda: "x", clock)
    return Site(settings, rest, clock, rest)


def findings(here: Site) -> dict[str, Finding]:
    return {found.check: found for found in examine(here)}


@pytest.mark.slurm
def test_a_slurm_with_too_short_a_grace_is_told_the_line_and_all_else_is_well(
    slurm_server: SlurmServer, tmp_path: Path
) -> None:
    found = findings(of_slurm(slurm_server, tmp_path))
    assert found["KillWait"] == Finding(
        "KillWait", "error", "6: jobs get less than two minutes to save", f"KillWait=120 {slurm.WHERE}"
    )
    well = (
        "Slurm answers",
        "Slurm version",
        "data_parser",
        "MinJobAge",
        "JobFileAppend",
        "Slurm token",
        "clock of slurmctld",
    )
    assert {found[name].level for name in well} == {"ok"}
    assert found["Slurm version"].says == "26.05.5"
    assert found["Slurm token"].says == "60 of 60 minutes left"


@pytest.fixture(scope="module")
def slinkys() -> Iterator[SlurmServer]:
    """A Slurm with the values Slinky renders."""
    yield from serve(kill_wait=30, min_job_age=2, extra="JobFileAppend=0\n")


@pytest.mark.slurm
def test_slinkys_own_values_are_three_errors(slinkys: SlurmServer, tmp_path: Path) -> None:
    found = findings(of_slurm(slinkys, tmp_path))
    lines = {name: found[name].change.split()[0] for name in ("KillWait", "MinJobAge", "JobFileAppend")}
    assert lines == {
        "KillWait": "KillWait=120",
        "MinJobAge": "MinJobAge=300",
        "JobFileAppend": "JobFileAppend=1",
    }


@pytest.mark.slurm
def test_a_token_that_expired_or_is_somebody_elses_is_an_error(
    slurm_server: SlurmServer, tmp_path: Path
) -> None:
    root = findings(of_slurm(slurm_server, tmp_path, user="root"))
    assert (root["Slurm token"].level, "'root'" in root["Slurm token"].says) == ("error", True)
    short = of_slurm(slurm_server, tmp_path, lifespan=1)
    wait_for("the end of the token", lambda: slurm.slurm_token(short).level == "error")
    assert "expired" in slurm.slurm_token(short).says
    wait_for("the refusal", lambda: findings(short)["Slurm answers"].level == "error")


@pytest.mark.kube
def test_the_services_account_has_what_it_needs_and_its_surplus_is_named(kube_server: KubeServer) -> None:
    found = findings(of_kube(kube_server, "remediator"))
    assert found["rights"].level == "ok"
    surplus = found["rights beyond need"]
    assert surplus.level == "warn"
    assert "delete pods" in surplus.says  # the test server grants it, the manifests do not
    assert "get nodes" not in surplus.says
    assert found["Kubernetes version"].level == "ok"
    assert found["clock of Kubernetes"].level == "ok"


@pytest.mark.kube
def test_an_account_without_rights_is_told_each_one(kube_server: KubeServer) -> None:
    here = of_kube(kube_server, "nobody")
    found = kubernetes.rights_missing(here)
    assert found.level == "error"
    assert "may not get nodes, list nodes" in found.says
    assert "kubectl apply" in found.change
    assert kubernetes.rights_excessive(here).level == "ok"


@pytest.mark.kube
def test_an_administrator_may_too_much(kube_server: KubeServer) -> None:
    here = of_kube(kube_server, "admin")
    assert kubernetes.rights_missing(here).level == "ok"
    assert "* *.*" in kubernetes.rights_excessive(here).says


@pytest.mark.kube
def test_a_clock_that_is_wrong_is_told_by_how_much(kube_server: KubeServer) -> None:
    clock = ManualClock(SystemClock().now() + 60.0)
    found = kubernetes.kubernetes_clock(of_kube(kube_server, "remediator", clock))
    assert (found.level, "behind this clock" in found.says) == ("error", True)


@pytest.mark.kube
def test_pools_and_spares_are_read_as_this_account(kube_server: KubeServer) -> None:
    kube_server.add_node(
        "doctored", taints=[{"key": "remediator.dev/spare", "value": "true", "effect": "NoSchedule"}]
    )
    try:
        here = of_kube(kube_server, "remediator")
        (pool,) = kubernetes.pools(here)
        assert pool.level == "ok"
        (spare,) = kubernetes.spares(here)
        assert (spare.level, "remediator.dev/spare=true" in spare.change) == ("warn", True)
        kube_server.add_pod("default", "soperators-0", "doctored", {"slurm.nebius.ai/worker": "true"})
        (pool,) = kubernetes.pools(here)
        assert (pool.level, pool.change) == ("warn", "set pools.gpu.stage: observe")
        assert "of Soperator's: only observed" in pool.says
    finally:
        kube_server.remove_node("doctored")


@pytest.mark.slurm
def test_a_jobs_gpus_are_counted_on_all_its_nodes(slurm_server: SlurmServer, tmp_path: Path) -> None:
    """What `remediator plan` multiplies with the hours."""
    port = of_slurm(slurm_server, tmp_path).slurm
    assert isinstance(port, RestSlurm)
    wide = slurm_server.sbatch("-N2", "--gres=gpu:8", script="#!/bin/bash\nsleep 60\n")
    part = slurm_server.sbatch("-N1", "-n1", "--gres=gpu:2", script="#!/bin/bash\nsleep 60\n")
    none = slurm_server.sbatch("-N1", "-n1", script="#!/bin/bash\nsleep 60\n")

    def gpus() -> dict[int, int | None]:
        return {job.job_id: job.gpus for job in port.jobs(deadline=5.0) if job.state == "RUNNING"}

    try:
        wait_for("three jobs", lambda: gpus() == {wide: 16, part: 2, none: 0})
    finally:
        slurm_server.reset()
