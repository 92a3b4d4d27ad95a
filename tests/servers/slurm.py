"""A real Slurm in namespaces of its own: slurmctld, slurmrestd and three dynamic slurmds, loopback only.

Everything hangs on one pid 1 that ends when its stdin closes, so a killed test run leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

CACHE = Path(os.environ.get("REMEDIATOR_CACHE", str(Path.home() / ".cache/remediator")))
NODES = ("gpu-0", "gpu-1", "gpu-2")
BOX = "/box"
WORKER = Path(__file__).parents[2] / "slurm_bridge/pyslurm/worker.py"

CONF = """\
ClusterName=box
SlurmctldHost=box(127.0.0.1)
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MaxNodeCount=64
ReturnToService=0
SlurmctldPort=6817
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd-%n
SlurmdPidFile=/run/slurm/slurmd-%n.pid
SlurmctldPidFile=/var/spool/slurmctld/pid
SlurmctldDebug=verbose
SlurmdDebug=info
SlurmdTimeout=30
LogTimeFormat=iso8601_ms
MpiDefault=none
SlurmctldParameters=enable_expedited_requeue
ScronParameters=enable
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
"""

INIT = """\
set -e
R={work}/ovl
mount -t tmpfs tmpfs {work}/ovl
mkdir $R/up $R/wk $R/root
mount -t overlay overlay -o lowerdir={layers},upperdir=$R/up,workdir=$R/wk $R/root
R=$R/root
mkdir -p $R{box} $R/opt/fakegpu
mount --bind {work}/io $R{box}
mount -t proc proc $R/proc
mount -t tmpfs tmpfs $R/run
mount -t tmpfs tmpfs $R/dev
for d in null zero random urandom full tty; do touch $R/dev/$d; mount --bind /dev/$d $R/dev/$d; done
mkdir -p $R/dev/shm && mount -t tmpfs tmpfs $R/dev/shm
ip link set lo up
ip addr add 10.98.0.1/32 dev lo
hostname box
echo '127.0.0.1 localhost box {names}' > $R/etc/hosts
for i in 0 1 2 3 4 5 6 7; do touch $R/opt/fakegpu/gpu$i; done
install -d -m 755 $R/etc/slurm $R/run/slurm
chroot $R install -d -o slurm /run/slurmctld
cp {work}/io/etc/* $R/etc/slurm/
install -d -m 700 $R/var/spool/slurmctld
rm -rf $R/var/spool/slurmctld/*
chroot $R chown -R slurm:slurm /etc/slurm /var/spool/slurmctld
chmod 600 $R/etc/slurm/*.key
chroot $R sh -c 'id alice || useradd -m alice; id rest || useradd -M rest' >/dev/null 2>&1
mkdir -m 1777 $R{box}/jobs $R{box}/run
exec chroot $R /bin/bash -c 'echo ready > {box}/ready; read -r _'
"""


def count_drains(ctld_log: str, node: str) -> int:
    """How often slurmctld set DRAIN on the node; repeating the same drain logs nothing."""
    return len(re.findall(rf"update_node: node {re.escape(node)} state set to DRAIN(?:ED|ING)\b", ctld_log))


def count_requeues(ctld_log: str, address: str) -> int:
    """Effective requeues, by id or `1_3`; slurmctld logs one when the old run's processes are gone."""
    return len(re.findall(rf"Requeuing JobId={re.escape(address)}(?:\(\d+\))?$", ctld_log, re.MULTILINE))


def count_refused_requeues(ctld_log: str, address: str) -> int:
    """Requeue calls that slurmctld refused, a job that was pending already among them."""
    return len(re.findall(rf"Requeue of JobId={re.escape(address)} returned an error", ctld_log))


def count_requests(rest_log: str, method: str, path: str) -> int:
    """Requests that reached slurmrestd, such as `POST`, `jobs/requeue`; its default level logs them."""
    return len(re.findall(rf" {method} /slurm/v[0-9.]+/{re.escape(path)}$", rest_log, re.MULTILINE))


def wait_for(what: str, check: Callable[[], object], timeout: float = 60.0, every: float = 0.05) -> None:
    """Poll until `check()` is true, or fail naming `what`."""
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout:.0f} s for {what}")
        time.sleep(every)


def slurm_root() -> Path | None:
    """Where the project's setup put the Slurm root, if it did."""
    root = CACHE / "roots/slurm"
    return root if (root / "usr/sbin/slurmrestd").exists() else None


def pyslurm_layer() -> Path | None:
    """Where the project's setup put pyslurm for that root, if it did: it lies over the root."""
    layer = CACHE / "pyslurm"
    return layer if (layer / "opt/pyslurm").exists() else None


def _listens(path: Path) -> bool:
    """Whether somebody answers at a Unix socket: its file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as door:
        return door.connect_ex(str(path)) == 0


def _only_child(pid: int) -> int | None:
    try:
        kids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(kids[0]) if kids else None


class SlurmServer:
    """One Slurm cluster in its own mount, net, pid, uts and ipc namespaces.

    `socket` is slurmrestd's Unix socket as seen from outside; logs are plain files under `io`. `zone` is the
    TZ that slurmctld is started with from then on, "" for none.
    """

    def __init__(self, root: Path, *, kill_wait: int = 6, min_job_age: int = 300, extra: str = "") -> None:
        self.work = Path(tempfile.mkdtemp(prefix="rmd-slurm-"))
        self.io = self.work / "io"
        self.socket = self.io / "run/rest.sock"
        self.ctld_log = self.io / "slurmctld.log"
        self.rest_log = self.io / "slurmrestd.log"
        self.url = "http+unix://" + quote(str(self.socket), safe="")
        self.kill_wait = kill_wait
        self.min_job_age = min_job_age
        self.zone = ""
        self._root = root
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._box: subprocess.Popen[bytes] | None = None
        self._pid1 = 0
        self._write_config(extra)

    def _write_config(self, extra: str) -> None:
        etc = self.io / "etc"
        etc.mkdir(parents=True)
        (self.work / "ovl").mkdir()
        self.work.chmod(0o755)
        tail = f"KillWait={self.kill_wait}\nMinJobAge={self.min_job_age}\nJobFileAppend=1\n{extra}"
        tail += "NodeSet=gpus Feature=gpu\nPartitionName=gpu Nodes=gpus Default=YES MaxTime=INFINITE\n"
        (etc / "slurm.conf").write_text(CONF + tail)
        (etc / "gres.conf").write_text("Name=gpu File=/opt/fakegpu/gpu[0-7]\n")
        (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (etc / "slurm.key").write_bytes(secrets.token_bytes(1024))
        (etc / "jwt.key").write_bytes(secrets.token_bytes(32))

    def start(self) -> None:
        """Bring everything up and wait until three nodes are IDLE; leave nothing behind on failure."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        layers = ":".join(str(layer) for layer in (pyslurm_layer(), self._root) if layer)
        script = INIT.format(work=self.work, layers=layers, box=BOX, names=" ".join(NODES))
        unshare = ["unshare", "-m", "-n", "-p", "-u", "-i", "--fork", "--kill-child"]
        with (self.work / "init.log").open("wb") as log:
            self._box = subprocess.Popen(
                [*unshare, "bash", "-c", script], stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        wait_for("the namespaces", self._ready)
        self._pid1 = _only_child(self._box.pid) or 0
        self.start_ctld()
        for i, name in enumerate(NODES):
            self.start_slurmd(name, 16900 + i)
        self.start_rest()
        wait_for("three idle nodes", self._has_idle_nodes, 90)

    def _has_idle_nodes(self) -> bool:
        for name, daemon in self._daemons.items():
            if daemon.poll() is not None:
                raise RuntimeError(f"{name} ended: {(self.io / f'{name}.log').read_text()[-1000:]}")
        return self.scontrol("show", "nodes").count("State=IDLE") >= len(NODES)

    def _ready(self) -> bool:
        if self._box is not None and self._box.poll() is not None:
            raise RuntimeError((self.work / "init.log").read_text())
        return (self.io / "ready").exists()

    def stop(self) -> None:
        """End pid 1 and with it every process and mount; remove the files."""
        try:
            self._end_processes()
        finally:
            shutil.rmtree(self.work)

    def _end_processes(self) -> None:
        for daemon in self._daemons.values():
            daemon.send_signal(signal.SIGCONT)
        if self._box is not None and self._box.stdin is not None:
            self._box.stdin.close()
            self._box.wait(20)
        for daemon in self._daemons.values():
            daemon.wait(20)

    def _enter(self, user: str, env: dict[str, str]) -> list[str]:
        enter = ["nsenter", "-t", str(self._pid1), "-m", "-n", "-p", "-u", "-i", "-r", "-w"]
        sets = [
            f"{k}={v}" for k, v in ({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"} | env).items()
        ]
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user != "root" else []
        return [*enter, "env", "-i", *sets, *drop]

    def run(self, *argv: str, user: str = "root", stdin: str = "", check: bool = True) -> str:
        """Run a command inside; its stdout."""
        done = subprocess.run(
            [*self._enter(user, {}), *argv],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{argv}: {done.stderr.strip()}")
        return done.stdout

    def _spawn(self, name: str, log: Path, *argv: str, env: dict[str, str] | None = None) -> None:
        with log.open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [*self._enter("root", env or {}), *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def kill(self, name: str, signum: int = signal.SIGKILL) -> None:
        """Send a signal to one daemon, by its id; waits for its end after SIGKILL and SIGTERM."""
        daemon = self._daemons[name]
        pid = _only_child(daemon.pid)
        if pid is not None:
            os.kill(pid, signum)
        if signum == signal.SIGCONT:
            daemon.send_signal(signum)  # nsenter stops with its child, and does not go on with it
        if signum in (signal.SIGKILL, signal.SIGTERM):
            daemon.wait(20)

    def start_ctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._spawn("slurmctld", self.ctld_log, "setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups",
                    "slurmctld", "-D", env={"TZ": self.zone} if self.zone else {})  # fmt: skip
        wait_for("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False), 90)

    def restart_ctld(self, signum: int = signal.SIGTERM) -> None:
        """End slurmctld (SIGTERM saves its state, SIGKILL may not), start it again in another second."""
        self.kill("slurmctld", signum)
        time.sleep(1.1)
        self.start_ctld()

    def start_slurmd(self, name: str, port: int) -> None:
        """Start one dynamic node, the way Slinky does. It has its /run/slurm for itself, as on a machine of
        its own: of two slurmds that make the socket for credentials there at one moment, the second ends.
        """
        conf = f"CPUs=4 RealMemory=4000 Gres=gpu:8 Port={port} Feature=gpu"
        alone = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /run/slurm && exec "$@"', "sh")
        self._spawn(name, self.io / f"{name}.log", *alone, "slurmd", "-D", "-Z", "-N", name, "--conf", conf)

    def start_rest(self) -> None:
        """Start slurmrestd on the Unix socket and wait until it listens."""
        self.socket.unlink(missing_ok=True)
        args = (
            "-a",
            "rest_auth/jwt",
            "-s",
            "openapi/slurmctld,openapi/util",
            f"unix:{BOX}/run/rest.sock",
        )
        self._spawn("slurmrestd", self.rest_log, "setpriv", "--reuid=rest", "--regid=rest", "--init-groups",
                    "slurmrestd", *args, env={"SLURM_JWT": "daemon"})  # fmt: skip
        wait_for("slurmrestd", lambda: _listens(self.socket))

    def pyslurm_socket(self) -> Path:
        """Where the pyslurm worker listens, run inside as a user who cannot read Slurm's key."""
        path = self.io / "run/worker.sock"
        if not path.exists():
            self._start_worker()
            wait_for("the pyslurm worker", path.exists)
        return path

    def _start_worker(self) -> None:
        if pyslurm_layer() is None:
            pytest.fail(f"no pyslurm under {CACHE}: run `python3 -m deploy.setup pyslurm` first")
        shutil.copy(WORKER, self.io / "worker.py")
        argv = ("/opt/pyslurm/bin/python", f"{BOX}/worker.py", f"{BOX}/run/worker.sock")
        self._spawn("worker", self.io / "worker.log", "setpriv", "--reuid=rest", "--regid=rest",
                    "--init-groups", *argv)  # fmt: skip

    def scontrol(self, *argv: str) -> str:
        """Run scontrol as root; its output."""
        return self.run("scontrol", *argv)

    def token(self, username: str = "slurm", lifespan: int = 7200) -> str:
        """A fresh JWT."""
        return (
            self.scontrol("token", f"username={username}", f"lifespan={lifespan}").partition("=")[2].strip()
        )

    def sbatch(self, *options: str, script: str, user: str = "alice") -> int:
        """Submit a batch script for a user; the job id."""
        argv = ("sbatch", "--parsable", "-D", f"{BOX}/jobs", *options)
        return int(self.run(*argv, user=user, stdin=script).split(";")[0])

    def reset(self) -> None:
        """Cancel every job, resume every node and wait until all is idle."""
        self.run("scancel", "--state=RUNNING", "--signal=KILL", "--full", check=False)
        for name in NODES:
            self._resume(name)
        wait_for("an idle cluster", self._is_idle, 120, every=0.2)

    def _is_idle(self) -> bool:
        self.run("scancel", "--user=alice", check=False)
        jobs = self.run("squeue", "-h", "-a")
        nodes = dict(line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines())
        for name, state in nodes.items():
            if state.startswith(("down", "drain")):  # a slurmd that had no processor for half a minute, too
                self._resume(name)
        return not jobs and list(nodes.values()).count("idle") == len(NODES)

    def _resume(self, name: str) -> None:
        self.run("scontrol", "update", f"nodename={name}", "state=RESUME", check=False)

    def saved(self) -> str:
        """Which of its saves slurmctld has made last; it makes one within 5 s of a change."""
        return self.run("stat", "-c", "%i %.9Y", "/var/spool/slurmctld/job_state", check=False)


@pytest.fixture(scope="session")
def slurm_server() -> Iterator[SlurmServer]:
    """One real Slurm for the whole run (KillWait 6)."""
    yield from serve()


def serve(*, kill_wait: int = 6, min_job_age: int = 300, extra: str = "") -> Iterator[SlurmServer]:
    """A real Slurm, ended when the fixture is."""
    root = slurm_root()
    if root is None:
        pytest.skip(f"no Slurm root under {CACHE}/roots: run the project's setup first")
    server = SlurmServer(root, kill_wait=kill_wait, min_job_age=min_job_age, extra=extra)
    server.start()
    try:
        yield server
    finally:
        server.stop()
