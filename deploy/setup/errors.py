"""The errors of the setup: each is a sentence for a person."""

from __future__ import annotations


class SetupError(Exception):
    """Something a person has to mend; the text says what and what to do next."""


class SilentRegistryError(SetupError):
    """A registry does not answer: no other recipe will get further."""
