"""A real Prometheus over samples that a test makes up, asked as if the time were any."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deploy.setup.parts import ensure
from tests.servers.ports import free_ports
from tests.servers.slurm import wait_for

Made = tuple[str, Mapping[str, str], Iterable[tuple[float, float]]]
"""A metric, its labels, and samples as (second, value)."""


@contextlib.contextmanager
def prometheus(folder: Path, series: Iterable[Made]) -> Iterator[str]:
    """Its URL until the block ends; it scrapes nothing and knows these samples only."""
    programs = ensure("debs")["debs"] / "root/usr/bin"
    (folder / "samples").write_text(_open_metrics(series))
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    build = ["tsdb", "create-blocks-from", "openmetrics", f"{folder}/samples", f"{folder}/data"]
    subprocess.run([str(programs / "promtool"), *build], check=True, capture_output=True)
    (port,) = free_ports(1)
    options = {
        "config.file": folder / "prometheus.yml", "storage.tsdb.path": folder / "data",
        "storage.tsdb.retention.time": "100y", "web.listen-address": f"127.0.0.1:{port}",
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(programs / "prometheus"), *(f"--{name}={value}" for name, value in options.items())],
            stdout=log, stderr=log,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for("Prometheus", lambda: _is_ready(url), 90, every=0.05)
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _open_metrics(series: Iterable[Made]) -> str:
    lines = []
    for metric, labels, samples in series:
        names = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines += [f"{metric}{{{names}}} {value} {at}" for at, value in samples]
    return "\n".join([*lines, "# EOF", ""])


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
