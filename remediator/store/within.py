"""What is known within one transaction only: the next one, of whomever, reads it anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import sqlalchemy as sa

Known = TypeVar("Known")


class Within(Generic[Known]):
    """Made by `make` when a transaction first asks for it; kept until that ends, or until it is forgotten
    because a savepoint may have taken back what it says.
    """

    def __init__(self, make: Callable[[], Known]) -> None:
        self._make = make
        self._kept: tuple[sa.RootTransaction | None, Known] | None = None

    def __call__(self, connection: sa.Connection) -> Known:
        """What this very transaction knows."""
        present, kept = connection.get_transaction(), self._kept
        if kept is None or kept[0] is not present:
            kept = self._kept = present, self._make()
        return kept[1]

    def forget(self) -> None:
        """Nothing is known any more."""
        self._kept = None
