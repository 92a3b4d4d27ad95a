"""GPUs that a file describes, behind NVML's own ABI: `libnvidia-ml.c`, compiled once into the cache.

The agents of the lab load it in place of the driver's library, and so do the agent's tests.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.lab.dcgm import identity
from deploy.lab.errors import LabError
from deploy.lab.spec import GPU_PCI
from deploy.lab.sysfs import IDLE_CELSIUS
from deploy.setup.cache import cache_root, key_of

SOURCE = Path(__file__).with_name("libnvidia-ml.c")
VARIABLE = "REMEDIATOR_FAKE_NVML"
NAME = "libnvidia-ml.so.1"
FILE = "gpus.txt"
_FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{NAME}")
_OPERATING_C, _SLOWDOWN_C, _HEAT = 87, 89, 0x48


def library() -> Path:
    """The compiled library; LabError without gcc and the C headers, which the setup installs."""
    path = cache_root() / "nvml" / key_of("nvml 1", *_FLAGS, SOURCE)[:16] / NAME
    if path.exists():
        return path
    if shutil.which("gcc") is None:
        raise LabError(
            "gcc is missing: run `make test` or `make lab-up` as root, or `apt-get install gcc libc6-dev`"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # One folder for each caller: the nodes of a lab are made side by side, and each of them asks.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / NAME
        done = subprocess.run(
            ["gcc", *_FLAGS, "-o", made, SOURCE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LabError(f"{SOURCE.name} does not compile: {done.stderr.strip()[:500]}")
        made.replace(path)
    return path


def healthy(folder: Path, hostname: str) -> None:
    """The file of a lab's node: eight H100, idle and cool."""
    gpus = FakeGpus(folder / FILE)
    gpus.new()
    for gpu, pci in enumerate(GPU_PCI):
        gpus.gpu(gpu, "uuid", identity(gpu, hostname))
        gpus.gpu(gpu, "pci", f"0000{pci}.0".upper())
        gpus.heat(gpu, IDLE_CELSIUS)
    for name in ("utilization", "tensor"):
        gpus.gpu("*", name, 0)


class FakeGpus:
    """The file of one machine's GPUs; a later line of it wins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def new(self, personality: str = "h100", gpus: int = 8) -> None:
        """Healthy GPUs of one kind: a100, h100 or b200."""
        self._write([f"personality {personality}", f"gpus {gpus}"])

    def machine(self, name: str, value: object) -> None:
        """Set what is true of the machine, such as `rc.init` (what the library's start returns)."""
        self._write([*self._without(f"{name} "), f"{name} {value}"])

    def gpu(self, gpu: int | str, name: str, value: object = 1) -> None:
        """Set what a GPU says; "*" is every GPU."""
        self.machine(f"gpu {gpu} {name}", value)

    def heat(self, gpu: int, celsius: float) -> None:
        """Set a GPU's temperature, and what follows from it: H100 slow down at 89 degrees."""
        self.gpu(gpu, "temperature", round(celsius))
        self.gpu(gpu, "margin", _OPERATING_C - round(celsius))
        self.gpu(gpu, "reasons", _HEAT if celsius >= _SLOWDOWN_C else 0)

    def forget(self, start: str) -> None:
        """Take back every line that begins so."""
        self._write(self._without(start))

    def were_asked_in_parallel(self) -> bool:
        """Whether two threads were ever inside the library at once."""
        return Path(f"{self.path}.parallel").exists()

    def _without(self, start: str) -> list[str]:
        return [line for line in self.path.read_text().splitlines() if not line.startswith(start)]

    def _write(self, lines: list[str]) -> None:
        """In one step: a reading comes at any moment."""
        new = self.path.with_suffix(".new")
        new.write_text("\n".join([*lines, ""]))
        new.replace(self.path)
