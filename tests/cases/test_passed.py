"""O20 (2) a: what spoke against a node passes while its jobs are given time."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.store import outbox
from tests.crash.test_suspects import worker
from tests.crash.test_thermal import Site
from tests.fakes.river import River

GLOBS = ["", "/shared/{job}/step_*"]


def hot(folder: Path, glob: str) -> tuple[Site, int]:
    """A hot node stands drained and fenced; its job is waited for."""
    site = Site(folder, glob=glob)
    job = site.river.submit_job()
    if glob:
        site.river.sees_saved(job, site.river.clock.now() - 60.0)
    site.values["gpu-0"] = (79,)
    site.go_on(120, "gpu-0")
    assert "DRAIN" in worker(site.river)
    assert site.river.kube.view("gpu-0").unschedulable
    assert untouched(site.river, job)
    return site, job


def untouched(river: River, job: int) -> bool:
    seen = river.job(job)
    return (seen.state, seen.restart_count, river.slurm.count("requeue", str(job))) == ("RUNNING", 0, 0)


def incidents(site: Site) -> list[tuple[str, str]]:
    return [(one.plan, one.state) for one in site.river.all_incidents()]


@pytest.mark.parametrize(
    ("glob", "restarts"), [(GLOBS[0], True), (GLOBS[1], False)], ids=["at-job-end", "at-checkpoint"]
)
def test_all_of_ours_is_taken_back_and_no_job_was_asked(tmp_path: Path, glob: str, restarts: bool) -> None:
    site, job = hot(tmp_path, glob)
    site.values["gpu-0"] = (60,)
    for _ in range(2):
        if restarts:
            site.river.begin()
        site.go_on(60)
    assert incidents(site) == [("give-back", "closed"), ("replace", "closed")]
    assert "DRAIN" not in worker(site.river)
    assert not site.river.kube.view("gpu-0").unschedulable
    assert untouched(site.river, job)
    assert site.river.slurm.count("drain", "w-gpu-0") == site.river.slurm.count("resume", "w-gpu-0") == 1
    with site.river.store.read() as connection:
        told = [one.message.text for one in outbox.due(connection, site.river.clock.now() + 1)]
    assert any(f"your job {job} was not touched" in text for text in told)


def test_heat_that_comes_again_is_a_new_incident(tmp_path: Path) -> None:
    site, _ = hot(tmp_path, "")
    site.values["gpu-0"] = (60,)
    site.go_on(90)
    site.river.clock.advance(1000.0)
    site.values["gpu-0"] = (79,)
    site.began = site.river.clock.now()
    site.go_on(120, "gpu-0")
    assert incidents(site)[0] == ("replace", "open")
    assert "DRAIN" in worker(site.river)


@pytest.mark.parametrize("values", [(), (174,)], ids=["no samples", "no temperature"])
def test_what_nobody_knows_has_not_passed(tmp_path: Path, values: tuple[float, ...]) -> None:
    site, job = hot(tmp_path, "")
    site.values["gpu-0"] = values
    site.go_on(150)
    assert incidents(site) == [("replace", "open")]
    assert "DRAIN" in worker(site.river)
    assert untouched(site.river, job)


def test_a_second_witness_of_another_fault_keeps_the_node_out(tmp_path: Path) -> None:
    site, _ = hot(tmp_path, "")
    site.river.xid("gpu-0", 95)
    site.go_on(75, "gpu-0")
    site.values["gpu-0"] = (60,)
    site.go_on(120)
    assert "give-back" not in dict(incidents(site))
    assert site.river.kube.view("gpu-0").unschedulable


def test_a_job_that_was_asked_already_moves_on(tmp_path: Path) -> None:
    site, job = hot(tmp_path, GLOBS[1])
    while not site.river.slurm.count("requeue", str(job)):
        site.river.sees_saved(job, site.river.clock.now() - 60.0, site.river.clock.now())
        site.go_on(15, "gpu-0")
    site.values["gpu-0"] = (60,)
    site.go_on(45)
    site.river.run()
    assert incidents(site) == [("replace", "closed")]
    assert (site.river.job(job).state, site.river.job(job).restart_count) == ("RUNNING", 1)
