from __future__ import annotations

from pathlib import Path

import pytest

from deploy.setup import process, roots, wheels
from deploy.setup.errors import SetupError, SilentRegistryError

RECIPE = roots.Recipe("slurm", ("new", "newer"), ("a", "b"), ("/bin/x", "-V"), "x 26.05")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(roots, "apt_update", lambda part: None)


def fake_debian(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | SetupError]) -> list[str]:
    """What each suite has: a version of x or an error; gives the suites tried."""
    tried: list[str] = []

    def debootstrap(recipe: roots.Recipe, suite: str, path: Path) -> None:
        tried.append(suite)
        found = versions[suite]
        if isinstance(found, SetupError):
            raise found
        for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
            (path / folder).mkdir(parents=True)
        (path / "version").write_text(found)

    def output(argv: list[str]) -> str:
        return (Path(argv[1]) / "version").read_text()

    monkeypatch.setattr(roots, "debootstrap", debootstrap)
    monkeypatch.setattr(process, "output", output)
    return tried


def test_the_first_suite_with_the_wanted_version_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fake_debian(monkeypatch, {"new": "x 26.05.5", "newer": "x 26.05.6"}) == []
    roots.build(RECIPE, tmp_path)
    assert (tmp_path / "version").read_text() == "x 26.05.5"
    assert not list((tmp_path / "var/cache/apt").iterdir())


@pytest.mark.parametrize("first", ["x 25.11.1", SetupError("debootstrap failed: not installable")])
def test_a_suite_that_moved_on_or_is_broken_gives_way_to_the_next(
    first: str | SetupError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fake_debian(monkeypatch, {"new": first, "newer": "x 26.05.6"})
    root = tmp_path / "root"
    root.mkdir()
    roots.build(RECIPE, root)
    assert tried == ["new", "newer"]
    assert (root / "version").read_text() == "x 26.05.6"


def test_when_no_suite_fits_every_one_is_named_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_debian(monkeypatch, {"new": "x 25.11", "newer": SetupError("broken")})
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(SetupError, match=r"slurm-root: wanted x 26.05; new: x 25.11; newer: broken"):
        roots.build(RECIPE, root)


def test_a_silent_archive_is_not_asked_again_for_another_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fake_debian(
        monkeypatch, {"new": SilentRegistryError("apt does not answer"), "newer": "x 26.05.6"}
    )
    with pytest.raises(SilentRegistryError):
        roots.build(RECIPE, tmp_path)
    assert tried == ["new"]


def test_the_mirror_is_the_one_of_debian_s_own_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "Debian|Debian-Security|http://s/\nOther|Debian|http://o/\nDebian|Debian|http://m/\n"
    monkeypatch.setattr(process, "output", lambda argv: lines)
    assert roots.mirror() == ["http://m/"]


def test_elsewhere_than_on_debian_debootstrap_s_own_mirror_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "output", lambda argv: "Ubuntu|Ubuntu|http://u/\n")
    assert roots.mirror_and_script("forky") == []


def test_the_host_s_choice_of_index_goes_into_the_root_and_its_paths_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wheels, "host_pip_config", lambda: "global.index-url='http://i/'\nglobal.cert='/x'\n")
    monkeypatch.setenv("PIP_FIND_LINKS", "/opt/wheels")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "9")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    assert wheels.pip_settings() == {"PIP_INDEX_URL": "http://i/", "PIP_DEFAULT_TIMEOUT": "9"}


def test_what_debootstrap_says_is_shown_without_addresses() -> None:
    assert roots.debootstrap_text("I: Checking component main on http://x.example/debian...") == (
        "Checking component main on the mirror"
    )
    assert roots.debootstrap_text("I: Unpacking tar...") == "Unpacking tar..."
    assert roots.debootstrap_text("W: noise") is None
