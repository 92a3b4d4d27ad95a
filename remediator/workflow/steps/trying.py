"""The acceptance test as a step: of a node that is to be given back, or that is suspected."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from remediator.kube.acceptance import State, Trial
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing

REFUSED_S = 60.0


class Trying(Writing):
    """The same test a spare takes. What the node itself shows may be late by `patience` seconds, and its
    kubelet may refuse the test for a minute.
    """

    bound_s = 300.0
    patience: ClassVar[dict[State, float]] = {"not-ready": 300.0}

    @abstractmethod
    def passed(self, why: str) -> Done:
        """What follows from a passed test."""

    @abstractmethod
    def failed(self, why: str, node: str) -> Outcome:
        """What follows from a failed one."""

    def check(self, context: Context) -> Outcome | None:
        """Passed when the machine bears its proof and nothing of the test is left there."""
        trial = self._trial(context)
        if trial.state == "proven" and not trial.pod:
            return self.passed(f"acceptance test passed: {trial.sentence}")
        if trial.state in {"not-ready", "failed"} and not trial.pod:
            if self._waited(context) >= self.patience.get(trial.state, 0.0):
                return self._failed(context, trial)
            return Wait(f"acceptance test: {trial.sentence}", after=1.0)
        return Wait(trial.sentence, after=1.0) if trial.state == "running" else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which machine."""
        return f"run the acceptance test on {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """One stage of the test; the pod goes once its verdict is known."""
        incident = context.incident
        machine = (incident.node, incident.node_uid, incident.id)
        trial = self._trial(context)
        if trial.state == "untested":
            context.acceptance.start(*machine)
            return Wait(f"acceptance test on {incident.node} is started", after=1.0)
        if trial.state == "passed":
            context.acceptance.prove(*machine, trial.sentence)
        context.acceptance.clear(*machine)
        if not trial.begun and self._waited(context) < REFUSED_S:
            return Wait(f"{trial.sentence}: tried again", after=3.0)
        return None if trial.state in {"passed", "proven"} else self._failed(context, trial)

    def _waited(self, context: Context) -> float:
        return context.now - (context.row.started_at or context.now)

    def _failed(self, context: Context, trial: Trial) -> Outcome:
        return self.failed(f"acceptance test failed: {trial.sentence}", context.incident.node)

    def _trial(self, context: Context) -> Trial:
        incident = context.incident
        return context.acceptance.look(incident.node, incident.node_uid, incident.id)
