"""The one error of the setup: a sentence for a person."""

from __future__ import annotations


class SetupError(Exception):
    """Something a person has to mend; the text says what and what to do next."""
