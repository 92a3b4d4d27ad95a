"""Tables and the head of a generated page, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def head(title: str, *sentences: str) -> Iterator[str]:
    """A page's title, where it comes from, and what a reader has to know first."""
    yield f"# {title}"
    yield "Written from the code by `make docs`; do not edit."
    yield from sentences


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A table; a bar in a cell does not end it."""
    yield ""
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    yield from map(_row, rows)


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`{text}`" if text else ""


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
