"""KillWait 120: as long as a job needs, up to two minutes, and then it is over."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from deploy.lab.api import Lab
from tests.e2e.conftest import KILL_WAIT
from tests.e2e.helpers import Site, Tail, Training, in_order, wait_for
from tests.servers.slurm import count_requeues

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

GRACE_S = 120
NEEDS_S = 70
EARLY_S = 2
"""Slurm counts from the requeue, in whole seconds; the job writes down when it was told."""
SLACK_S = 10
"""From the last process's end to slurmctld's requeue, on a busy machine."""
LIMIT_S = 180
FOREVER_S = 100_000


@contextlib.contextmanager
def kill_wait(lab: Lab, seconds: int) -> Iterator[None]:
    """Another KillWait in the running Slurm; slurmctld hands it to the workers."""
    path = lab.layout.slurm_etc / "slurm.conf"
    before = path.read_text()
    path.write_text(before.replace(f"KillWait={KILL_WAIT}\n", f"KillWait={seconds}\n"))
    lab.slurm("scontrol", "reconfigure")
    try:
        yield
    finally:
        path.write_text(before)
        lab.slurm("scontrol", "reconfigure")


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found, kill_wait(lab, GRACE_S):
        shutil.copy(Path(__file__).with_name("saver.py"), lab.layout.shared)
        yield found


class Saver:
    """A job that needs so many seconds to save."""

    def __init__(self, site: Site, name: str, seconds: float) -> None:
        self._log = site.lab.layout.shared / f"{name}.log"
        self._log.unlink(missing_ok=True)
        program = f"exec python3 /shared/saver.py /shared/{name}.log {seconds}"
        options = ("--parsable", "-N1", "--gres=gpu:8", "--output=/dev/null")
        job = site.lab.slurm("sbatch", *options, stdin=f"#!/bin/bash\n{program}\n")
        self.job = Training(site.lab, job.strip())

    def has_restarted(self) -> bool:
        """Its script began once more."""
        return len(self.times("START")) > 1

    def times(self, word: str) -> list[float]:
        """When it wrote this word."""
        text = self._log.read_text() if self._log.exists() else ""
        return [float(at) for at in re.findall(rf"^{word} (\S+)$", text, re.MULTILINE)]

    def grace(self, ctld: Tail) -> float:
        """Seconds from its SIGTERM to slurmctld's one requeue of it."""
        text, address = ctld.text(), self.job.address
        assert count_requeues(text, address) == 1
        (at,) = re.findall(rf"^\[(\S+)\] Requeuing JobId={address}$", text, re.MULTILINE)
        (term,) = self.times("TERM")
        return datetime.fromisoformat(at).timestamp() - term


def test_a_stubborn_job_ends_with_its_grace_and_a_slow_one_as_soon_as_it_has_saved(site: Site) -> None:
    """Both at once, on two nodes: two minutes are long."""
    ctld = Tail(site.lab.slurmctld_log)
    slow, stubborn = Saver(site, "slow", NEEDS_S), Saver(site, "stubborn", FOREVER_S)
    wait_for("both jobs", lambda: slow.times("START") and stubborn.times("START"), 150, every=0.2)
    sick = {saver: site.node_of(saver.job.workers()[0]) for saver in (slow, stubborn)}
    for node in sick.values():
        site.lab.inject.xid(node, 79)

    wait_for("the slow job's restart", lambda: slow.job.is_running(1), NEEDS_S + 60, every=0.5)
    assert NEEDS_S <= slow.grace(ctld) <= NEEDS_S + SLACK_S
    assert len(slow.times("SAVED")) == 1
    assert stubborn.job.record()["restart_cnt"] == 1  # counted when the requeue is accepted
    assert len(stubborn.times("START")) == 1, "it is still within its grace"

    wait_for("the stubborn job's restart", lambda: stubborn.job.is_running(1), LIMIT_S, every=0.5)
    assert GRACE_S - EARLY_S <= stubborn.grace(ctld) <= GRACE_S + SLACK_S < LIMIT_S
    assert stubborn.times("SAVED") == []
    for saver, node in sick.items():
        incident = site.closes(node, 60)["id"]
        survey = next(s for s in site.controller.story(incident)["steps"] if s["name"] == "survey")
        assert survey["facts"]["grace_s"] == GRACE_S
        wait_for("its second start", saver.has_restarted, 150, every=0.2)
        assert len(saver.times("START")) == 2
    assert site.controller.audit()["ok"]
