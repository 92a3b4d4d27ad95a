"""A containerd content store filled without a running lab, and its cheap clones."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from deploy.setup import oci, process
from deploy.setup.errors import SetupError

NAMESPACE = "k8s.io"
START_SECONDS = 20.0
_CONFIG = """version = 2
root = "{root}"
state = "{state}/run"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
"""


def import_images(
    store: Path, programs: Path, images: Sequence[oci.Image], omit: Collection[str] = ()
) -> None:
    """Import and unpack images into the containerd root `store`; layers in `omit` are already there.
    `programs` is the folder with containerd and ctr.
    """
    with _containerd(store, programs) as socket:
        ctr = [str(programs / "ctr"), "--address", str(socket), "--namespace", NAMESPACE, "images"]
        loading = subprocess.Popen(
            [*ctr, "import", "--snapshotter", "overlayfs", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert loading.stdin is not None  # noqa: S101 (it is a pipe: said for the type checker)
        with contextlib.suppress(BrokenPipeError), loading.stdin:
            oci.write_archive(images, loading.stdin, omit)
        said = loading.stdout.read().decode() if loading.stdout else ""
        if loading.wait() != 0:
            raise SetupError(f"images: containerd refused an image: {said.strip().splitlines()[-1:]}")
        present = set(process.output([*ctr, "ls", "-q"]).split())
    lost = sorted({image.name for image in images} - present)
    if lost:
        raise SetupError(f"images: not in the store after the import: {' '.join(lost)}")


@contextlib.contextmanager
def _containerd(store: Path, programs: Path) -> Iterator[Path]:
    """A containerd of our own on `store`, in a private mount namespace; yields its socket."""
    state = Path(tempfile.mkdtemp(prefix="remediator-ctrd-"))
    socket, config, log = state / "s", state / "config.toml", state / "log"
    config.write_text(_CONFIG.format(root=store, state=state, socket=socket))
    argv = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        str(programs / "containerd"),
        "--config",
        str(config),
    ]
    with log.open("w") as out:
        server = subprocess.Popen(
            process.bound_to_parent(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        )  # fmt: skip
    try:
        _await_socket(server, socket, log)
        yield socket
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(state)


def _await_socket(server: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    """Until the server listens; the socket appears only when every plugin is up."""
    until = time.monotonic() + START_SECONDS
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > until:
            last = log.read_text().strip().splitlines()[-1:]
            raise SetupError(f"images: containerd did not start: {' '.join(last)}")
        time.sleep(0.02)


def clone(store: Path, target: Path) -> None:
    """Copy a stopped store: hard links for layers, which nobody writes, and real copies of databases."""
    subprocess.run(["cp", "-al", f"{store}/.", str(target)], check=True)
    for database in target.rglob("*.db"):
        source = store / database.relative_to(target)
        database.unlink()
        shutil.copy2(source, database)
