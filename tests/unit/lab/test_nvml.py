"""The file of a lab node's GPUs."""

from __future__ import annotations

from pathlib import Path

from deploy.lab.nvml import FILE, FakeGpus, healthy


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
