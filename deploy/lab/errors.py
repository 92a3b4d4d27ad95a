"""The one error of the lab: a sentence for a person."""

from __future__ import annotations


class LabError(Exception):
    """Something went wrong in the lab; the text says what, and what to do next."""
