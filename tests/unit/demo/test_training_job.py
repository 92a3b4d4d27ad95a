"""The demo's job, as real processes: stopped anywhere and resumed, it ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOB = Path(__file__).parents[3] / "deploy" / "lab" / "demo" / "job"
ENDLESS = 10**9


def _environment(workdir: Path, **more: object) -> dict[str, str]:
    settings = {"WORKDIR": workdir, "STEPS": ENDLESS, "STEP_SECONDS": 0.005, "CKPT_EVERY": 10, **more}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return clean | {name: str(value) for name, value in settings.items()}


def _launch(workdir: Path, **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, JOB / "train.py", "--local-ranks", "2"],
        env=_environment(workdir, **more),
        stdout=subprocess.DEVNULL,
    )


def _rank(workdir: Path, rank: int, **more: object) -> subprocess.Popen[bytes]:
    """One rank as srun would start it."""
    slurm = {"SLURM_JOB_ID": 7, "SLURM_PROCID": rank, "SLURM_NTASKS": 2, **more}
    return subprocess.Popen(
        [sys.executable, JOB / "train.py"], env=_environment(workdir, **slurm), stdout=subprocess.DEVNULL
    )


def _result(workdir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((workdir / "result.json").read_text())
    return found


def _events(workdir: Path, name: str) -> list[dict[str, str]]:
    try:
        lines = (workdir / "events.log").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines if line.startswith(f"{name} ")]


def _reached(workdir: Path) -> int:
    try:
        return int((workdir / "reached").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _until(condition: Callable[[], bool]) -> None:
    """Hangs until the test's time-out when the condition never comes true."""
    while not condition():
        time.sleep(0.002)


def _reference(workdir: Path, steps: int) -> dict[str, Any]:
    """The result of as many steps without an interruption."""
    assert _launch(workdir, STEPS=steps, STEP_SECONDS=0).wait() == 0
    return _result(workdir)


def _resume(workdir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Thirty steps more than were reached, beside the same number uninterrupted."""
    steps = _reached(workdir) + 30
    assert _launch(workdir, STEPS=steps, SLURM_RESTART_COUNT=1, STEP_SECONDS=0).wait() == 0
    return _result(workdir), _reference(workdir / "reference", steps)


@pytest.mark.parametrize("seed", range(3))
def test_stopped_and_resumed_ends_with_the_same_bits(tmp_path: Path, seed: int) -> None:
    at = random.Random(seed).randrange(1, 80)
    first = _launch(tmp_path)
    _until(lambda: _reached(tmp_path) >= at)
    first.terminate()
    assert first.wait() == 128 + signal.SIGTERM
    stopped = _reached(tmp_path)
    result, reference = _resume(tmp_path)
    assert result == reference | {"restarts": 1, "starts": 2}
    assert sorted(line["rank"] for line in _events(tmp_path, "TERM")) == ["0", "1"]
    assert {line["step"] for line in _events(tmp_path, "START") if line["restart"] == "1"} == {str(stopped)}


def test_killed_without_notice_recomputes_from_the_last_checkpoint(tmp_path: Path) -> None:
    ranks = [_rank(tmp_path, rank) for rank in (0, 1)]
    _until(lambda: _reached(tmp_path) >= 25)
    for rank in ranks:
        rank.kill()
        rank.wait()
    lost = _reached(tmp_path) - max(int(path.stem[-8:]) for path in tmp_path.glob("checkpoint-*.json"))
    result, reference = _resume(tmp_path)
    assert result == reference | {"restarts": 1, "starts": 2, "steps_recomputed": lost}


def test_ranks_agree_on_the_step_when_only_one_is_told(tmp_path: Path) -> None:
    ranks = [_rank(tmp_path, rank) for rank in (0, 1)]
    _until(lambda: _reached(tmp_path) >= 5)
    ranks[1].terminate()
    assert [rank.wait() for rank in ranks] == [128 + signal.SIGTERM] * 2
    ends = _events(tmp_path, "END")
    assert len({line["step"] for line in ends}) == 1
    assert (tmp_path / f"checkpoint-{int(ends[0]['step']):08d}.json").exists()


def test_rank_that_is_left_alone_saves_and_ends(tmp_path: Path) -> None:
    ranks = [_rank(tmp_path, rank, PEER_SECONDS=0.5) for rank in (0, 1)]
    _until(lambda: _reached(tmp_path) >= 5)
    ranks[1].kill()
    assert ranks[0].wait() == 75
    ranks[1].wait()
    result, reference = _resume(tmp_path)
    assert (result["sha256"], result["steps_recomputed"]) == (reference["sha256"], 0)


def test_rank_of_an_older_run_cannot_mix_in(tmp_path: Path) -> None:
    """A frozen node thaws: its rank finds its run's folder gone and ends."""
    old = [_rank(tmp_path, rank, PEER_SECONDS=5) for rank in (0, 1)]
    _until(lambda: _reached(tmp_path) >= 15)
    for rank in old:
        rank.send_signal(signal.SIGSTOP)
    steps = _reached(tmp_path) + 100
    new = [_rank(tmp_path, rank, STEPS=steps, SLURM_RESTART_COUNT=1) for rank in (0, 1)]
    _until(lambda: len(_events(tmp_path, "START")) == 4)
    for rank in old:
        rank.send_signal(signal.SIGCONT)
    assert [rank.wait() for rank in new] == [0, 0]
    assert [rank.wait() for rank in old] == [75, 75]
    assert _result(tmp_path)["sha256"] == _reference(tmp_path / "reference", steps)["sha256"]


def test_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    first = _launch(tmp_path)
    _until(lambda: _reached(tmp_path) >= 35)
    first.terminate()
    first.wait()
    last = max(tmp_path.glob("checkpoint-*.json"))
    last.write_bytes(last.read_bytes()[:-40])
    (tmp_path / "checkpoint-00009999.json").write_text("{}")
    (tmp_path / "checkpoint-00000119.json.1.tmp").write_text("half")
    result, reference = _resume(tmp_path)
    assert result["sha256"] == reference["sha256"]
    assert result["steps_recomputed"] > 0


def test_finished_job_that_runs_again_computes_nothing(tmp_path: Path) -> None:
    first = _reference(tmp_path, 40)
    assert _launch(tmp_path, STEPS=40, SLURM_RESTART_COUNT=1, STEP_SECONDS=0).wait() == 0
    assert _result(tmp_path) == first | {"restarts": 1, "starts": 2}


def test_closed_standard_output_does_not_keep_a_rank_from_saving(tmp_path: Path) -> None:
    """srun may be gone before its ranks."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, JOB / "train.py", "--local-ranks", "2"], env=_environment(tmp_path), stdout=writer
    )
    os.close(writer)
    os.close(reader)
    _until(lambda: _reached(tmp_path) >= 30)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert (tmp_path / f"checkpoint-{_reached(tmp_path):08d}.json").exists()


def test_script_asks_for_two_nodes_and_starts_one_rank_on_each() -> None:
    script = (JOB / "train.sbatch").read_text()
    assert "#SBATCH -N2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\n" in script
    assert script.endswith("\nsrun python3 /shared/job/train.py\n")
