"""The lab for programs: tests, demo and bench bring it up, look into it and break it through this class."""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deploy.lab import network, slurm
from deploy.lab.control import Control
from deploy.lab.enter import Entry
from deploy.lab.errors import LabError
from deploy.lab.inject import Injector
from deploy.lab.kubeapi import KubeApi
from deploy.lab.layout import DEFAULT_NAME, Layout
from deploy.lab.limits import check_inotify
from deploy.lab.node import Node
from deploy.lab.phases import Phases, Silent, Watcher
from deploy.lab.spec import CONTROL_PLANE, SLURMRESTD_PORT, node
from deploy.lab.start import Options, Start
from deploy.lab.stop import sweep
from deploy.setup import parts

SERVICE_EXEC = ("-n", "slurm", "exec", "deploy/remediator", "--", "remediator")
Completed = subprocess.CompletedProcess[str]


class Lab:
    """One lab by name. Nothing is started by making the object."""

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self.layout = Layout.of(name)
        self.control = Control(self.layout.control_socket, f"lab {name}")
        self.api = KubeApi(self.layout, self.control)
        self.inject = Injector(self.layout, self.control)
        self._entry = Entry(self.control, self.layout.environment())

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.layout.name

    def up(
        self,
        *,
        kill_wait: int = slurm.GRACE_SECONDS,
        service: bool = True,
        gpu_alerts: bool = True,
        watcher: Watcher | None = None,
    ) -> dict[str, float]:
        """Bring the lab up and return seconds since the start by phase. LabError when it is up already.
        `kill_wait` in seconds; `service` False leaves our service out, `gpu_alerts` False the rules by which
        Prometheus tells a fault a second time. A failed start is taken down again.
        """
        phases = Phases(watcher or Silent())
        with self._locked():
            if self.is_up:
                raise LabError(f"lab {self.name} is already up")
            with phases.phase("parts"):
                golden = parts.golden()
            with phases.phase("leftovers"):
                sweep(self.layout, keep_logs=False)
                check_inotify()
            self._start(Options(kill_wait, service, gpu_alerts), golden, phases)
        return phases.figures

    def _start(self, options: Options, golden: Path, phases: Phases) -> None:
        try:
            Start(self.layout, options, golden, phases).run()
        except BaseException:
            sweep(self.layout)
            raise
        self._note(ready=True, figures=phases.figures)

    def down(self, *, keep_logs: bool = True) -> bool:
        """Take the lab down, also a half-started one; False when there was nothing. Logs stay if wanted."""
        with self._locked():
            return sweep(self.layout, keep_logs=keep_logs)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One start or stop of a lab at a time; the lock ends with the process."""
        folder = self.layout.cache / "locks"
        folder.mkdir(exist_ok=True)
        with (folder / f"lab-{self.name}.lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LabError(f"lab {self.name} is being started or stopped by another process") from None
            yield

    @property
    def is_up(self) -> bool:
        """True when the lab's start was completed and its first process lives."""
        return bool(self.settings().get("ready")) and self.control.first_pid() is not None

    def settings(self) -> dict[str, Any]:
        """What the lab was started with; empty when there is no lab."""
        try:
            found: dict[str, Any] = json.loads(self.layout.settings.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _note(self, **entries: Any) -> None:
        self.layout.settings.write_text(json.dumps({**self.settings(), **entries}))

    def node(self, name: str) -> Node:
        """A node by name."""
        return Node(self.layout, node(name))

    def entry(self, node_name: str | None = None) -> Entry:
        """The door into the control plane's namespaces, or into a node's."""
        if node_name is None:
            return self._entry
        return Entry(self.node(node_name).control, self.layout.environment())

    def exec(self, command: Sequence[str], *, node_name: str | None = None, check: bool = True) -> Completed:
        """Run a command in the control plane's namespaces, or in a node's."""
        return self.entry(node_name).run(command, check=check)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Standard output of kubectl as the administrator."""
        return self._entry.run(
            [str(self.layout.binary("kubectl")), *arguments], stdin=stdin, check=check
        ).stdout

    def remediator(self, *arguments: str, check: bool = True) -> str:
        """Standard output of the service's own command, run in the controller's pod."""
        return self.kubectl(*SERVICE_EXEC, *arguments, check=check)

    def slurm(
        self, *command: str, stdin: str | None = None, check: bool = True, deadline: float = 60.0
    ) -> str:
        """Standard output of one of Slurm's commands, as root in Slurm's root."""
        return self._entry.run(slurm.chroot(*command), stdin=stdin, check=check, deadline=deadline).stdout

    def token(self, user: str = "slurm", lifespan: int = 3600) -> str:
        """A JSON web token for slurmrestd, good for `lifespan` seconds."""
        return (
            self.slurm("scontrol", "token", f"username={user}", f"lifespan={lifespan}")
            .strip()
            .partition("=")[2]
        )

    def enter_network(self) -> None:
        """Move the calling thread into the lab's network, so that 10.99.0.1 can be reached directly."""
        network.enter(self._first_pid())

    def visit_network(self) -> contextlib.AbstractContextManager[None]:
        """The same for a `with` block, with the way back."""
        return network.visit(self._first_pid())

    def _first_pid(self) -> int:
        pid = self.control.first_pid()
        if pid is None:
            raise LabError(f"lab {self.name} is not up: `python -m deploy.lab up`")
        return pid

    def node_dir(self, name: str) -> Path:
        """A node's kmsg, sys/, boot_id and gpu-bad/."""
        return self.layout.node_dir(name)

    @property
    def slurmrestd_url(self) -> str:
        """Where slurmrestd listens, inside the lab's network."""
        return f"http://{CONTROL_PLANE}:{SLURMRESTD_PORT}"

    @property
    def slurmctld_log(self) -> Path:
        """Slurmctld's log: node state changes and requeues, with milliseconds."""
        return self.layout.logs / "slurm" / "slurmctld.log"

    @property
    def slurmrestd_log(self) -> Path:
        """Slurmrestd's log: each request with method, path and user."""
        return self.layout.logs / "slurmrestd.log"

    @property
    def apiserver_audit(self) -> Path:
        """The API server's audit log, one JSON event a line."""
        return self.layout.logs / "audit.log"
