"""The command line as people and scripts meet it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remediator import __version__
from remediator.store.engine import open_store

ROOT = Path(__file__).parents[3]


def remediator(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remediator", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_is_the_packages() -> None:
    done = remediator("--version")
    assert (done.returncode, done.stdout) == (0, f"remediator {__version__}\n")


def test_example_passes_its_own_check(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(remediator("config", "example").stdout)
    done = remediator("config", "check", str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"ok: {file}\n")
    assert (
        "pool gpu: T0 full, T1 observe, T2 full, T3 full, nodes with nvidia.com/gpu.present=true"
        in done.stdout
    )


def test_check_says_which_variables_take_part(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(remediator("config", "example").stdout)
    done = remediator("config", "check", str(file), REMEDIATOR_HTTP__PORT="9000")
    assert "overridden by REMEDIATOR_HTTP__PORT\n" in done.stdout


def test_wrong_settings_are_one_line_each_and_status_two(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("cluster: {nam: x}\n")
    done = remediator("config", "check", str(file))
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(lines) == 4
    assert all(line.startswith(f"error: {file}") for line in lines)


def test_controller_refuses_missing_settings_without_a_traceback(tmp_path: Path) -> None:
    done = remediator("controller", "--settings", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("topic", ["config", "xid", "incidents", "audit"])
def test_every_topic_has_help(topic: str) -> None:
    done = remediator(topic, "--help")
    assert done.returncode == 0
    assert f"remediator {topic} " in done.stdout


def test_help_names_every_topic() -> None:
    words = remediator("--help").stdout.split()
    assert {"controller", "config", "xid", "incidents", "audit"} <= set(words)


def test_unknown_verb_is_status_two_without_traceback() -> None:
    done = remediator("frobnicate")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_topic_loads_only_its_own_libraries() -> None:
    """`xid` and `config` must start at once and run where the service's libraries are not installed."""
    code = (
        "import sys; from typer.testing import CliRunner; from remediator.cli.main import app;"
        "CliRunner().invoke(app, ['xid', 'parse'], input=''); CliRunner().invoke(app, ['config', 'example']);"
        "print([m for m in ('kubernetes', 'starlette', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_verbs_that_read_the_store_or_the_policy_load_no_server_and_no_cluster_client(tmp_path: Path) -> None:
    """A person waits for them; what they do not use takes most of a second to load."""
    file = tmp_path / "settings.yaml"
    file.write_text(remediator("config", "example").stdout)
    open_store(f"sqlite:///{tmp_path}/s.db").close()
    program = (
        "import sys; from typer.testing import CliRunner; from remediator.cli.main import app\n"
        "for line in sys.argv[1:]:\n"
        "    done = CliRunner().invoke(app, line.split())\n"
        "    print(line, done.exit_code, *({'kubernetes', 'starlette', 'uvicorn'} & set(sys.modules)))"
    )
    read = ("incidents list", "audit verify", "node gpu-0", "policy check", "policy explain 79")
    done = subprocess.run(
        [sys.executable, "-c", program, *read],
        cwd=ROOT,
        env={**os.environ, "REMEDIATOR_SETTINGS": str(file), "REMEDIATOR_STORE__URL": f"sqlite:///{tmp_path}/s.db"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    statuses = (0, 0, 2, 0, 0)
    assert done.stdout.splitlines() == [
        f"{line} {status}" for line, status in zip(read, statuses, strict=True)
    ]
