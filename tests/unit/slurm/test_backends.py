"""Which backend the settings choose, and how two are one."""

from __future__ import annotations

import pytest

from remediator.clock import ManualClock
from remediator.errors import Ambiguous
from remediator.settings.tree import Slurm
from slurm_bridge.backends import open_slurm
from slurm_bridge.either import EitherSlurm
from slurm_bridge.model import SlurmConfig, SlurmJob
from slurm_bridge.port import Cannot
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.rest.backend import RestSlurm
from tests.fakes.slurm import FakeSlurm


class Rest44(FakeSlurm):
    """REST before v0.0.45 sees no settings, and cannot requeue."""

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort."""
        return SlurmConfig(version="25.11.4")

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort."""
        raise Cannot("requeue: REST can requeue only from Slurm 26.05 on")


def test_what_the_first_backend_cannot_do_or_see_the_second_does() -> None:
    clock = ManualClock()
    first, second = Rest44(clock), FakeSlurm(clock)
    job_id = second.submit(SlurmJob(job_id=0, state="PENDING", user="alice", batch=True, requeue=True))
    clock.advance(2.0)
    either = EitherSlurm(first, second, clock)
    assert either.config(deadline=5.0) == second.config(deadline=5.0)
    second.is_up = False
    assert either.config(deadline=5.0) == first.config(deadline=5.0)
    second.is_up = True
    job = second.job(job_id, deadline=5.0)
    assert job is not None
    either.requeue(job, deadline=5.0)
    assert second.count("requeue", str(job_id)) == 1


def test_a_failure_of_the_first_backend_is_never_tried_again_on_the_second() -> None:
    """The write may have happened: only `Cannot` says that it did not and never will."""
    clock = ManualClock()
    first, second = FakeSlurm(clock), FakeSlurm(clock)

    def lose(*_: str) -> None:
        raise Ambiguous("no answer")

    first.after = lose
    with pytest.raises(Ambiguous):
        EitherSlurm(first, second, clock).drain("gpu-0", "remediator: inc-1 XID 79", deadline=5.0)
    assert second.writes == []


@pytest.mark.parametrize(
    ("backend", "path", "kind"),
    [
        ("auto", None, RestSlurm),
        ("auto", "/run/worker.sock", EitherSlurm),
        ("rest", "/run/worker.sock", RestSlurm),
        ("pyslurm", "/run/worker.sock", PyslurmSlurm),
    ],
)
def test_the_settings_choose_the_backend(backend: str, path: str | None, kind: type) -> None:
    slurm = Slurm.model_validate(
        {"url": "http://slurm-restapi.slurm:6820", "backend": backend, "pyslurm_socket": path}
    )
    assert type(open_slurm(slurm, ManualClock()).port) is kind
