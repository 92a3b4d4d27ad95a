"""`python -m deploy.lab.demo`: exit 0 only when everything it promises held."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator

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
        with _own(lab):
            return print_report(screen, Story(lab, screen, wanted).tell())
    except (Failed, LabError, SetupError) as error:
        screen.failed(f"{error}; logs: {lab.layout.logs}")
        return 1


@contextlib.contextmanager
def _own(lab: Lab) -> Iterator[None]:
    """The lab for this demo alone: down before, in case one was interrupted, and down afterwards."""
    folder = lab.layout.cache / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"demo-{lab.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"a demo runs in lab {lab.name} already: wait, or set REMEDIATOR_LAB to another name"
            ) from None
        lab.down()
        try:
            yield
        finally:
            lab.down()


if __name__ == "__main__":
    sys.exit(main())
