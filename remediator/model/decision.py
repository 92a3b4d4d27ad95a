"""What the policy says about one incident, and the sentence that explains it."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours
from remediator.model.incident import Tier

Action = Literal["act", "record", "hold"]


class Decision(Ours):
    """`act` starts `plan`, `record` only writes down, `hold` keeps the incident open for a person."""

    action: Action
    plan: str = ""
    tier: Tier = "T3"
    rule: str = ""
    cause: str = ""
    sentence: str
    policy: str = ""
