"""Agent settings come from a file and the environment, or an error names the field."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from remediator.agent.settings import ADVICE, AgentSettings, load
from remediator.errors import BadInput

REQUIRED = {"REMEDIATOR_AGENT_NODE": "gpu-0", "REMEDIATOR_AGENT_CONTROLLER_URL": "http://remediator:8080/"}


def test_environment_alone_is_enough() -> None:
    settings = load(None, REQUIRED)
    assert (settings.node, settings.controller_url) == ("gpu-0", "http://remediator:8080")


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("node: other\nheartbeat_s: 5\nkernel_log: journald\n")
    settings = load(path, REQUIRED)
    assert (settings.node, settings.heartbeat_s, settings.kernel_log) == ("gpu-0", 5.0, "journald")


def test_lists_and_maps_come_from_the_environment_too() -> None:
    names = {"IB_EXCLUDE": "mlx5_8, mlx5_9,", "IB_RAILS": "mlx5_0=0, mlx5_4=east"}
    settings = load(None, {**REQUIRED, **{f"REMEDIATOR_AGENT_{name}": text for name, text in names.items()}})
    assert settings.ib_exclude == {"mlx5_8", "mlx5_9"}
    assert settings.ib_rails == {"mlx5_0": "0", "mlx5_4": "east"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("controller_url", "remediator:8080"),
        ("controller_url", "http://user:hunter2@host"),
        ("controller_url", "http://host:99999"),
        ("controller_url", "http://host/path"),
        ("kernel_log", "/dev/kmsg"),
        ("metrics_port", "70000"),
        ("heartbeat_s", "0"),
        ("node", ""),
        ("log_level", "loud"),
        ("ib_rails", "mlx5_0"),
    ],
)
def test_wrong_value_names_its_field_and_is_not_repeated(field: str, value: str) -> None:
    with pytest.raises(BadInput) as error:
        load(None, {**REQUIRED, f"REMEDIATOR_AGENT_{field.upper()}": value})
    assert error.value.field == field
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "- a\n",
        "{",
        "\x00",
        "unknown: 1\n",
        "node: 2026-99-99\n",
        "[" * 5000,
    ],
    ids=lambda text: text[:9],
)
def test_wrong_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=ADVICE):
        load(path, REQUIRED)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "none", REQUIRED)


def test_file_without_its_library_says_what_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(BadInput, match=r"REMEDIATOR_AGENT_\*"):
        load(tmp_path / "agent.yaml", REQUIRED)


def test_every_setting_is_documented() -> None:
    """A docstring stands under each field, and the README's table has a row for it."""
    root = Path(__file__).parents[3] / "remediator" / "agent"
    source = (root / "settings.py").read_text()
    table = (root / "README.md").read_text()
    for name in AgentSettings.model_fields:
        assert re.search(rf'^    {name}: .*\n    """', source, re.MULTILINE), name
        assert f"| `{name}` |" in table, name
