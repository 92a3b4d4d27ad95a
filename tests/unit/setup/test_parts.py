from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.setup import gobin, host, images, parts, process, roots, store, wheels
from deploy.setup.cache import Part, is_current, key_of
from deploy.setup.errors import SetupError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path))
    return tmp_path


def test_every_part_comes_after_all_it_needs() -> None:
    order = [part.name for part in parts.with_needs(("all",), parts.all_parts())]
    known = parts.all_parts()
    assert sorted(order) == sorted(known)
    assert all(order.index(need) < order.index(name) for name in order for need in known[name].needs)


def test_an_unknown_part_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(SetupError, match=r"nonsense: no such part; there are apt venv gobin"):
        parts.with_needs(("nonsense",), parts.all_parts())


def fake_parts(tmp_path: Path, builds: dict[str, Callable[[Path], None]]) -> list[Part]:
    return [
        Part(
            name=name,
            path=tmp_path / name,
            key=key_of(name),
            build=build,
            needs=("a",) if name == "b" else (),
        )
        for name, build in builds.items()
    ]


def test_parts_are_built_after_those_they_need(tmp_path: Path) -> None:
    seen: list[str] = []
    parts._build(
        fake_parts(tmp_path, {"a": lambda _: seen.append("a"), "b": lambda _: seen.append("b")}),
    )
    assert seen == ["a", "b"]


def test_a_failed_part_is_raised_and_what_needs_it_is_not_built(tmp_path: Path) -> None:
    def fail(_: Path) -> None:
        raise SetupError("a: no")

    seen: list[str] = []
    with pytest.raises(SetupError, match="a: no"):
        parts._build(fake_parts(tmp_path, {"a": fail, "b": lambda _: seen.append("b")}))
    assert seen == []


def test_an_interrupt_ends_running_programs_and_keeps_what_was_built(tmp_path: Path) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    def long(_: Path) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        process.run("b", ["sleep", "600"], deadline=600)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            parts._build(fake_parts(tmp_path, {"a": lambda _: None, "b": long}))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert is_current(fake_parts(tmp_path, {"a": lambda _: None})[0])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("b")]


def test_a_part_s_key_follows_its_recipe_and_what_it_is_built_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: part.key for name, part in parts.all_parts().items()}
    changed = roots.Recipe(roots.PYTHON.name, ("other",), roots.PYTHON.packages, roots.PYTHON.check, "x")
    for module in (roots, wheels):
        monkeypatch.setattr(module, "PYTHON", changed)
    after = {name: part.key for name, part in parts.all_parts().items()}
    assert {name for name in before if before[name] != after[name]} == {
        "python-root", "wheels-service", "wheels-agent", "images", "golden",
    }  # fmt: skip


def test_the_agent_s_image_holds_no_kubernetes_client_and_no_server_code() -> None:
    agent = next(code for code in images.CODES if code.name == "agent")
    locked = wheels.lock_file("agent").read_text()
    assert agent.bases == ("python", "wheels-agent")
    assert "\nkubernetes==" not in f"\n{locked}"
    assert not any(path in ("remediator", "remediator/kube", "remediator/store") for path in agent.paths)


def test_only_the_newest_stores_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "older", "oldest", "gone")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "next.tmp-1").mkdir()
    images._drop_old_golden(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "next.tmp-1", "older"]


def test_a_clone_shares_layers_and_owns_its_databases(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    (source / "layers").mkdir(parents=True)
    target.mkdir()
    (source / "layers/file").write_text("x")
    (source / "meta.db").write_text("x")
    store.clone(source, target)
    assert (target / "layers/file").stat().st_ino == (source / "layers/file").stat().st_ino
    assert (target / "meta.db").stat().st_ino != (source / "meta.db").stat().st_ino
    assert (target / "meta.db").read_text() == "x"


def test_go_progress_counts_modules_then_packages() -> None:
    counter = gobin.Counter()
    assert counter.listed("go: downloading k8s.io/api v0.37.2\n") == "1 modules fetched"
    counter.listed("fmt\n")
    assert counter.compiled("fmt\n") == "compiled 1 of up to 1 packages: fmt"


def test_the_environment_follows_the_project_and_not_the_linter_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert '"remediator"' in host.project_tables()
    assert "ruff.lint" not in host.project_tables()
