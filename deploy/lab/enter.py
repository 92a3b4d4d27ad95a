"""Runs commands inside a lab or one of its nodes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from deploy.lab.control import Control
from deploy.lab.errors import LabError


class Entry:
    """A door into the namespaces of a first process."""

    def __init__(self, control: Control, env: Mapping[str, str] | None = None) -> None:
        """`env` is the whole environment of what runs inside; the caller's own when None."""
        self._control = control
        self._env = dict(env) if env is not None else None

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` inside; LabError when there is no inside."""
        pid = self._control.first_pid()
        if pid is None:
            raise LabError(f"{self._control.what} is not up: `make lab-up`, or `python -m deploy.lab up`")
        return ["nsenter", "-t", str(pid), "-m", "-n", "-p", "-u", "-i", "-C", "--", *command]

    def run(
        self,
        command: Sequence[str],
        *,
        check: bool = True,
        stdin: str | None = None,
        deadline: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside and wait for it; LabError with its last line when it fails or is late."""
        try:
            done = subprocess.run(
                self.argv(command), input=stdin, capture_output=True, text=True, timeout=deadline,
                stdin=subprocess.DEVNULL if stdin is None else None, env=self._env, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise LabError(f"{command[0]} was not done after {deadline:.0f} s") from None
        if check and done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise LabError(f"{' '.join(command[:3])} failed: {last}")
        return done

    def become(self, command: Sequence[str]) -> None:
        """Replace this process by the command, inside; for a person's own terminal."""
        argv = self.argv(command)
        os.execvpe(argv[0], argv, self._env if self._env is not None else dict(os.environ))  # noqa: S606
