"""`python -m deploy.lab.demo`: exit 0 only when everything it promises held."""

from __future__ import annotations

import os
import sys

from deploy.lab.api import Lab
from deploy.lab.demo.breaks import Break
from deploy.lab.demo.report import print_report
from deploy.lab.demo.screen import Screen
from deploy.lab.demo.story import Failed, Story
from deploy.lab.errors import LabError
from deploy.setup.errors import SetupError

NAME = os.environ.get("REMEDIATOR_LAB", "demo")


def main() -> int:
    """Tell the story in a lab of its own and take the lab down again."""
    screen = Screen()
    try:
        wanted = Break.from_environment(os.environ)
        lab = Lab(NAME)
    except (LabError, ValueError) as error:
        screen.failed(str(error))
        return 2
    try:
        return print_report(screen, Story(lab, screen, wanted).tell())
    except (Failed, LabError, SetupError) as error:
        screen.failed(f"{error}; logs: {lab.layout.logs}")
        return 1
    finally:
        lab.down()


if __name__ == "__main__":
    sys.exit(main())
