from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.setup import cache
from deploy.setup.errors import SetupError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path / "cache"))
    return cache.cache_root()


def part(root: Path, key: str = "k1", build: Callable[[Path], None] | None = None) -> cache.Part:
    def write(path: Path) -> None:
        (path / "content").write_text(key)

    return cache.Part(name="thing", path=root / "things" / "thing", key=key, build=build or write)


def test_a_part_is_built_once(own_cache: Path) -> None:
    assert cache.ensure_part(part(own_cache))
    assert not cache.ensure_part(part(own_cache))
    assert (own_cache / "things/thing/content").read_text() == "k1"


def test_a_new_key_replaces_the_whole_folder(own_cache: Path) -> None:
    cache.ensure_part(part(own_cache, "k1", lambda path: (path / "old").touch()))
    assert cache.ensure_part(part(own_cache, "k2"))
    assert sorted(p.name for p in (own_cache / "things/thing").iterdir()) == [cache.MARKER, "content"]


def test_a_failed_build_leaves_the_old_part_and_no_rubbish(own_cache: Path) -> None:
    def fail(path: Path) -> None:
        (path / "half").touch()
        raise SetupError("no")

    cache.ensure_part(part(own_cache, "k1"))
    with pytest.raises(SetupError):
        cache.ensure_part(part(own_cache, "k2", fail))
    assert [p.name for p in (own_cache / "things").iterdir()] == ["thing"]
    assert cache.is_current(part(own_cache, "k1"))


def test_what_a_killed_build_left_is_swept_by_the_next(own_cache: Path) -> None:
    left = own_cache / "things" / "thing.tmp-99999"
    left.mkdir(parents=True)
    (left / "half").touch()
    cache.ensure_part(part(own_cache))
    assert [p.name for p in (own_cache / "things").iterdir()] == ["thing"]


def test_a_process_killed_in_the_middle_of_a_build_is_made_good_by_the_next(own_cache: Path) -> None:
    def die(path: Path) -> None:
        (path / "half").touch()
        os._exit(9)

    child = os.fork()
    if child == 0:
        cache.ensure_part(part(own_cache, build=die))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not cache.is_current(part(own_cache))
    assert cache.ensure_part(part(own_cache))
    assert [p.name for p in (own_cache / "things").iterdir()] == ["thing"]


def test_two_builders_of_one_part_build_it_once(own_cache: Path) -> None:
    built = []

    def count(path: Path) -> None:
        built.append(path)

    threads = [
        threading.Thread(target=cache.ensure_part, args=(part(own_cache, build=count),)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_the_lock_of_a_part_excludes_other_processes(own_cache: Path) -> None:
    lock = own_cache / "locks/thing.lock"
    with cache.build_lock("thing"), lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_in_place_part_counts_as_not_built_while_it_is_being_rebuilt(own_cache: Path) -> None:
    seen = []
    path = own_cache / "env"

    def build(target: Path) -> None:
        target.mkdir(exist_ok=True)
        seen.append((target / cache.MARKER).exists())

    for key in ("k1", "k2"):
        cache.ensure_part(cache.Part(name="env", path=path, key=key, build=build, in_place=True))
    assert seen == [False, False]
    assert json.loads((path / cache.MARKER).read_text())["key"] == "k2"


def test_a_damaged_marker_means_not_built(own_cache: Path) -> None:
    cache.ensure_part(part(own_cache))
    (own_cache / "things/thing" / cache.MARKER).write_text("{")
    assert not cache.is_current(part(own_cache))


def test_the_key_follows_contents_and_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = cache.key_of("x", tmp_path)
    (tmp_path / "a").write_text("2")
    changed = cache.key_of("x", tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = cache.key_of("x", tmp_path)
    assert len({before, changed, renamed}) == 3


def test_the_key_ignores_compiled_files(tmp_path: Path) -> None:
    before = cache.key_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").touch()
    assert cache.key_of(tmp_path) == before


def test_neighbouring_inputs_do_not_run_into_one_another() -> None:
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")


def test_a_tree_with_a_mount_in_it_is_not_removed() -> None:
    with pytest.raises(SetupError, match="still mounted"):
        cache.remove_tree(Path("/sys"))


@pytest.mark.parametrize("place", ["a-file", "a-file/below"])
def test_a_cache_folder_that_cannot_be_made_is_one_line_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "a-file").write_text("in the way")
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path / place))
    with pytest.raises(
        SetupError, match=f"{place} cannot be made .*: run this as root, or set REMEDIATOR_CACHE"
    ):
        cache.cache_root()
