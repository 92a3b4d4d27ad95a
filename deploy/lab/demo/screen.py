"""What the demo prints: chapters, timed lines, tables. The same words on a terminal and in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from deploy.lab.demo.jobs import Job

PIPE_COLUMNS = 132
_STYLE = {
    "decision": "bold",
    "intent": "dim",
    "wait": "dim",
    "done": "green",
    "spare-claimed": "cyan",
    "held": "yellow",
    "overdue": "yellow",
}


class Screen:
    """A console with the demo's clock."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else PIPE_COLUMNS
        self._console = Console(soft_wrap=True, highlight=False, width=width)
        self._began = time.monotonic()

    def chapter(self, title: str) -> None:
        """A heading."""
        self._console.print()
        self._console.print(Rule(Text(title, "bold"), align="left", style="dim"), soft_wrap=False)

    def say(self, text: str) -> None:
        """A sentence with the seconds since the demo's start."""
        head = (f"[{time.monotonic() - self._began:5.1f} s] ", "dim")
        self._console.print(Text.assemble(head, text))

    def step(self, line: dict[str, Any]) -> None:
        """One line of an incident's timeline."""
        text = f"  +{line['after']:6.2f} s  {line['what']:<14} {line['step']:<21} {line['why']}"
        self._console.print(Text(text, _STYLE.get(line["what"], "")))

    @contextmanager
    def busy(self, text: str) -> Iterator[Callable[[str], None]]:
        """A spinner while something takes its time, with a way to change its text; nothing in a pipe."""
        with self._console.status(Text(text)) as status:
            yield lambda new: status.update(Text(new))

    def queue(self, jobs: Iterable[tuple[str, Job]]) -> None:
        """Who is where, the way squeue says it."""
        table = Table("job", "what", "state", "where, or why not", box=None, header_style="dim")
        for what, job in jobs:
            where = ", ".join(job.nodes) if job.state == "RUNNING" else f"({job.reason})"
            table.add_row(job.address, what, job.state, where)
        self.table(table)

    def table(self, table: Table) -> None:
        """A table, indented like everything that belongs to a chapter."""
        self._console.print(table, soft_wrap=False)

    def result(self, name: str, text: str) -> None:
        """A line `name: what was seen`."""
        self._console.print(Text.assemble((name, "bold"), f": {text}"))

    def passed(self) -> None:
        """The last word when everything held."""
        self._console.print(Text("PASS", "bold green"))

    def failed(self, why: str) -> None:
        """The last word when something did not."""
        self._console.print(Text.assemble(("FAIL", "bold red"), f" {why}"))
