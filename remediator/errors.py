"""Errors are named by what the caller should do; vendor exceptions never leave their package."""

from __future__ import annotations

from typing import Literal


class RemediatorError(Exception):
    """Base of all errors a caller is meant to handle."""


class Retry(RemediatorError):
    """The call surely had no effect; try again after `after` seconds."""

    def __init__(self, reason: str, after: float = 1.0) -> None:
        super().__init__(reason)
        self.after = after


class GiveUp(RemediatorError):
    """Trying again cannot help; the reason is for a person."""


class Ambiguous(RemediatorError):
    """The call may have had its effect: look it up, never repeat it blindly."""

    def __init__(self, reason: str, operation_id: str = "") -> None:
        super().__init__(reason)
        self.operation_id = operation_id


class Fenced(RemediatorError):
    """Leadership moved on (epoch changed, or too little lease is left): do nothing more."""

    def __init__(self, reason: str, epoch: int) -> None:
        super().__init__(reason)
        self.epoch = epoch


class Blocked(RemediatorError):
    """A guard or somebody else's ownership forbids the act; hold and tell people which one."""


class Overridden(Blocked):
    """A person undid what we had set, on this `side` (slurm or kubernetes): it is theirs now, yield."""

    def __init__(self, reason: str, side: Literal["slurm", "kubernetes"]) -> None:
        super().__init__(reason)
        self.side = side


class BadInput(RemediatorError):
    """Input from outside is wrong: `field` names where, the text says what to do."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
