"""undo-place: the place kept for a job is given up, the job taken out of it first."""

from __future__ import annotations

from remediator.workflow.steps.free_place import FreePlace


class UndoPlace(FreePlace):
    """As free-place, whatever the job is doing: nobody waits for it any more."""

    name = "undo-place"
    bound_s = 30.0
