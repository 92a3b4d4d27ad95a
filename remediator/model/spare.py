"""A spare node taken for one incident."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours


class Spare(Ours):
    """Identity of the spare, and how far it is: claimed, admitted, or no longer wanted."""

    node: str
    uid: str
    incident: str
    state: Literal["claimed", "admitted"] = "claimed"
