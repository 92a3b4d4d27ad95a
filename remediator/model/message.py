"""A message to people, before it has been delivered."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours

Urgency = Literal["tell", "page"]


class Message(Ours):
    """`audience` is `user:NAME` or `operators`; a page wants somebody now."""

    audience: str
    urgency: Urgency
    text: str
