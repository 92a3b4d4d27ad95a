"""Which boot of the node this is."""

from __future__ import annotations

from pathlib import Path

from remediator.errors import BadInput


def read_boot_id(path: Path) -> str:
    """The boot id in the file at `path`; BadInput when it is missing or no boot id."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("boot_id_path", f"{path} cannot be read ({type(error).__name__})") from None
    if not 8 <= len(text) <= 64:
        raise BadInput("boot_id_path", f"{path} holds no boot id; it must have 8 to 64 characters")
    return text
