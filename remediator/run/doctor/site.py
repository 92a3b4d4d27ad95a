"""Whom the checks ask: everything the controller talks to, opened when the first check wants it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from remediator.clock import Clock
from remediator.kube.session import Session, connect
from remediator.settings import Settings
from remediator.store.engine import Store, open_read_only
from slurm_bridge.model import SlurmConfig

ASK_S = 5.0


class SlurmSide(Protocol):
    """What is asked of Slurm, whichever way."""

    def ping(self, *, deadline: float) -> None:
        """Return when slurmctld answers, else raise."""

    def config(self, *, deadline: float) -> SlurmConfig:
        """Settings, version, and slurmctld's clock."""


class RestSide(Protocol):
    """What is asked of slurmrestd."""

    def data_parser(self, *, deadline: float) -> int:
        """The newest data_parser both sides speak."""


class WorkerSide(Protocol):
    """What is asked of the pyslurm worker."""

    def about(self, *, deadline: float) -> str:
        """Its versions."""


@dataclass(frozen=True)
class Site:
    """One installation as its settings describe it; `rest` and `worker` are there when they are used."""

    settings: Settings
    slurm: SlurmSide
    clock: Clock
    rest: RestSide | None = None
    worker: WorkerSide | None = None

    @cached_property
    def api(self) -> Session:
        """The API server; BadInput when there are no credentials."""
        return connect(self.settings.kubernetes.kubeconfig, clock=self.clock, pool_size=4)

    @cached_property
    def store(self) -> Store:
        """The store, read-only; GiveUp when there is none."""
        return open_read_only(self.settings.store.url)

    @cached_property
    def config(self) -> SlurmConfig:
        """Slurm's settings, read once."""
        return self.slurm.config(deadline=ASK_S)
