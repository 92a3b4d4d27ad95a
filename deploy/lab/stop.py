"""Takes a lab down and leaves no process or control group, hence no namespace, mount or interface."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

from deploy.lab.cgroups import Group
from deploy.lab.control import Control
from deploy.lab.errors import LabError
from deploy.lab.layout import Layout
from deploy.setup.cache import remove_tree


def sweep(layout: Layout, *, keep_logs: bool = True) -> bool:
    """End whatever is left of a lab, however it was left; True when there was something running.
    The logs stay to be read, everything else of the lab's folder goes.
    """
    group = Group.of_lab(layout.name)
    group.thaw_all()
    was_running = bool(group.processes())
    first = Control(layout.control_socket, f"lab {layout.name}").first_pid()
    if first:
        os.kill(first, signal.SIGKILL)  # the whole process-id namespace goes with it, strangers included
    group.kill()
    group.remove()
    _clear(layout, keep_logs)
    return was_running or first is not None


def _clear(layout: Layout, keep_logs: bool) -> None:
    if not layout.root.is_dir():
        return
    for entry in layout.root.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if not (keep_logs and entry == layout.logs):
                _remove(entry)
        else:
            entry.unlink()
    if not keep_logs:
        layout.root.rmdir()


def _remove(folder: Path, tries: int = 50) -> None:
    """Remove a folder that a helper of a killed start may be writing to for another moment."""
    for _ in range(tries):
        try:
            remove_tree(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            time.sleep(0.1)
        else:
            return
    raise LabError(f"something still writes to {folder}: run `down` again")
