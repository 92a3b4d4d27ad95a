"""The file of a lab node's GPUs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.lab.nvml import FILE, FakeGpus, healthy, library


def test_a_day_of_faults_leaves_the_file_as_long_as_it_was(tmp_path: Path) -> None:
    healthy(tmp_path, "gpu-0")
    gpus = FakeGpus(tmp_path / FILE)
    before = gpus.path.read_text()
    for _ in range(50):
        for gpu in range(8):
            gpus.heat(gpu, 95)
            gpus.gpu(gpu, "lost")
            gpus.forget(f"gpu {gpu} lost")
            gpus.heat(gpu, 34)
    assert sorted(gpus.path.read_text().splitlines()) == sorted(before.splitlines())


def test_nodes_that_are_made_side_by_side_get_one_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path))
    with ThreadPoolExecutor(8) as nodes:
        found = list(nodes.map(lambda _: library(), range(8)))
    assert len(set(found)) == 1
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [found[0]]
