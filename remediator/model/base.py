"""Two bases: ours refuses unknown fields, foreign payloads ignore them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Ours(BaseModel):
    """A value type we write ourselves: frozen, unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Foreign(BaseModel):
    """A value read from somebody else's payload: frozen, unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
