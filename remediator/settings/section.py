"""What every part of the settings tree is."""

from __future__ import annotations

from pydantic import ConfigDict

from remediator.model.base import Ours


class Section(Ours):
    """A part of the tree; texts under its fields become their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)
