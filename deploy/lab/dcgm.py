"""A node's dcgm-exporter: DCGM's gauges in its spelling, on its port. Standard library only.

`python -m deploy.lab.dcgm FOLDER HOSTNAME` serves what `FOLDER/dcgm.json` holds until it is killed.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.spec import DCGM_PORT, GPU_PCI

XID = "xid"
WATCHES = (
    "PCIE",
    "NVLINK",
    "PMU",
    "MCU",
    "MEM",
    "SM",
    "INFOROM",
    "THERMAL",
    "POWER",
    "DRIVER",
)
"""DCGM's health checks; each is 0 (pass), 10 (warn) or 20 (fail)."""
WORK = {
    "utilization": ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", 1),
    "tensor": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", 100),
}
"""What a GPU does, set in percent; not every exporter is told to show it, so it is shown where it was set."""

_FILE = "dcgm.json"
_NO_ERROR, _OTHER = "No Error", "Unknown Error"
_WORDS = {0: _NO_ERROR, 31: "GPU memory page fault", 79: "GPU has fallen off the bus"}

Gauges = dict[str, dict[str, int]]
"""By GPU number: its last XID and its health checks, 0 where nothing is said; and what it does."""


def clear(folder: Path) -> None:
    """A host engine that has just started: no XID seen, every check passed."""
    _write(folder, {})


def set_gauge(folder: Path, gpu: int, name: str, value: int) -> None:
    """Set a GPU's last XID ("xid"), one of its health checks, or its work; LabError for anything else."""
    if not 0 <= gpu < len(GPU_PCI):
        raise LabError(f"no GPU {gpu}: a node has 0 to {len(GPU_PCI) - 1}")
    if name not in (XID, *WATCHES, *WORK):
        raise LabError(f"no gauge {name!r}; there are {', '.join((XID, *WATCHES, *WORK))}")
    try:
        found = _read(folder)
    except OSError:
        raise LabError(f"node {folder.name} has no dcgm-exporter: it has no GPUs, or was never on") from None
    found.setdefault(str(gpu), {})[name] = value
    _write(folder, found)


def page(folder: Path, hostname: str) -> str:
    """What a scrape gets."""
    found = _read(folder)
    return "\n".join([*_xids(found, hostname), *_checks(found, hostname), *_work(found, hostname)]) + "\n"


def _read(folder: Path) -> Gauges:
    found: Gauges = json.loads((folder / _FILE).read_text())
    return found


def _write(folder: Path, gauges: Gauges) -> None:
    """In one step: a scrape comes at any moment."""
    new = folder / f"{_FILE}.new"
    new.write_text(json.dumps(gauges))
    new.replace(folder / _FILE)


def _xids(found: Gauges, hostname: str) -> Iterator[str]:
    name = "DCGM_FI_DEV_XID_ERRORS"
    yield f"# HELP {name} Value of the last XID error encountered."
    yield f"# TYPE {name} gauge"
    for gpu in range(len(GPU_PCI)):
        code = found.get(str(gpu), {}).get(XID, 0)
        said = f'err_code="{code}",err_msg="{_WORDS.get(code, _OTHER)}"'
        yield f"{name}{{{_labels(gpu, hostname)},{said}}} {code}"


def _checks(found: Gauges, hostname: str) -> Iterator[str]:
    name = "DCGM_EXP_GPU_HEALTH_STATUS"
    yield f"# HELP {name} GPU health status."
    yield f"# TYPE {name} gauge"
    for gpu in range(len(GPU_PCI)):
        for watch in WATCHES:
            status = found.get(str(gpu), {}).get(watch, 0)
            error = "DCGM_FR_OK" if status == 0 else "DCGM_FR_UNKNOWN"
            said = f'health_error_code="{error}",health_watch="{watch}"'
            yield f"{name}{{{_labels(gpu, hostname)},{said}}} {status}"


def _work(found: Gauges, hostname: str) -> Iterator[str]:
    for gauge, (name, text, of) in WORK.items():
        shown = [gpu for gpu in range(len(GPU_PCI)) if gauge in found.get(str(gpu), {})]
        if shown:
            yield from (f"# HELP {name} {text}", f"# TYPE {name} gauge")
        for gpu in shown:
            yield f"{name}{{{_labels(gpu, hostname)}}} {found[str(gpu)][gauge] / of}"


def identity(gpu: int, hostname: str) -> str:
    """The UUID of a node's GPU, for DCGM and NVML alike."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{gpu}.{hostname}')}"


def _labels(gpu: int, hostname: str) -> str:
    bus = f"0000{GPU_PCI[gpu]}.0".upper()
    return (
        f'gpu="{gpu}",UUID="{identity(gpu, hostname)}",pci_bus_id="{bus}",device="nvidia{gpu}",'
        f'modelName="NVIDIA H100 80GB HBM3",Hostname="{hostname}"'
    )


def serve(folder: Path, hostname: str) -> ThreadingHTTPServer:
    """A server on the exporter's port, not yet serving."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(folder, hostname).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """A scrape every 5 s is nothing to tell."""

    return ThreadingHTTPServer(("", DCGM_PORT), Handler)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2]).serve_forever()
