from __future__ import annotations

import pytest

from deploy.setup import prerequisites


@pytest.mark.parametrize("text", ["go version go1.26.8 linux/amd64", "go version go1.27rc1 linux/arm64"])
def test_a_new_enough_go_is_no_problem(text: str) -> None:
    assert prerequisites.go_problem(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "Go >= 1.26 is needed: install it"), ("go version go1.9.1 linux/amd64", "found go1.9")],
)
def test_a_missing_or_old_go_is_said_with_what_to_do(text: str | None, said: str) -> None:
    assert said in str(prerequisites.go_problem(text))


def test_an_old_python_is_said() -> None:
    assert "this is 3.10" in str(prerequisites.python_problem((3, 10)))
    assert prerequisites.python_problem((3, 11)) is None


def test_a_full_disk_is_said_with_the_way_out() -> None:
    assert "REMEDIATOR_CACHE" in str(prerequisites.disk_problem(2.0, 12.0))
    assert prerequisites.disk_problem(12.0, 12.0) is None


def test_a_machine_without_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert [line for line in prerequisites.platform_problems() if line and line.startswith("root is needed")]
