"""`python -m deploy.lab.demo`: exit 0 only when everything it promises held."""

from __future__ import annotations

import os
import sys

from rich.console import Console

from deploy.lab.api import Lab
from deploy.lab.demo.breaks import Break
from deploy.lab.demo.report import print_report
from deploy.lab.demo.story import Failed, Story
from deploy.lab.errors import LabError
from deploy.setup.errors import SetupError

NAME = os.environ.get("REMEDIATOR_LAB", "demo")


def main() -> int:
    """Tell the story in a lab of its own and take the lab down again."""
    console = Console(soft_wrap=True)
    try:
        wanted = Break.from_environment(os.environ)
        lab = Lab(NAME)
    except (LabError, ValueError) as error:
        console.print(f"[red]FAIL[/red] {error}")
        return 2
    try:
        return print_report(console, Story(lab, console, wanted).tell())
    except (Failed, LabError, SetupError) as error:
        console.print(f"[red]FAIL[/red] {error}; logs: {lab.layout.logs}", highlight=False)
        return 1
    finally:
        lab.down()


if __name__ == "__main__":
    sys.exit(main())
