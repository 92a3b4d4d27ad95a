from __future__ import annotations

from pathlib import Path

import pytest

from deploy.lab import cgroups
from deploy.lab.cgroups import Group, Hierarchy, parse_mountinfo

V1 = """31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
38 31 0:35 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_version_1_trees_are_found_with_the_options_that_mount_them_again() -> None:
    found = {str(tree.place): (tree.options, tree.unified) for tree in parse_mountinfo(V1)}
    assert found == {
        "cpu,cpuacct": ("cpu,cpuacct", False),
        "freezer": ("freezer", False),
        "systemd": ("none,name=systemd", False),
        "unified": ("", True),
    }


def test_a_single_tree_at_the_top_is_version_2() -> None:
    assert Group("g", parse_mountinfo(V2)).version == 2
    assert Group("g", parse_mountinfo(V1)).version == 1


def test_mounts_outside_the_usual_place_are_not_ours() -> None:
    assert parse_mountinfo("5 1 0:9 / /mnt/cg rw - cgroup cgroup rw,freezer\n") == ()


@pytest.fixture
def one_tree(tmp_path: Path) -> tuple[Hierarchy, ...]:
    """A folder that looks like a version 2 tree to the code (the files are plain)."""
    for folder in (tmp_path, tmp_path / "lab"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory misc pids\n")
        (folder / "cgroup.subtree_control").write_text("cpu\n")
        (folder / "cgroup.procs").write_text("")
    return (Hierarchy(tmp_path, "", unified=True),)


def test_version_2_moves_processes_to_a_leaf_and_hands_controllers_down(
    one_tree: tuple[Hierarchy, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    (tmp_path / "lab" / "cgroup.procs").write_text("41\n")
    Group("lab", one_tree).delegate()
    assert (tmp_path / "lab" / "init" / "cgroup.procs").read_text() == "41"
    assert (tmp_path / "lab" / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_version_2_freezes_through_its_own_file(one_tree: tuple[Hierarchy, ...], tmp_path: Path) -> None:
    Group("lab", one_tree).set_frozen(True)
    assert (tmp_path / "lab" / "cgroup.freeze").read_text() == "1"


def test_version_1_freezes_in_the_freezer_tree_only(tmp_path: Path) -> None:
    trees = tuple(Hierarchy(tmp_path / name, name, unified=False) for name in ("cpu", "freezer"))
    for tree in trees:
        (tree.mount / "lab").mkdir(parents=True)
    (tmp_path / "freezer/lab/freezer.state").write_text("THAWED")
    Group("lab", trees).set_frozen(True)
    assert (tmp_path / "freezer/lab/freezer.state").read_text() == "FROZEN"
    assert not (tmp_path / "cpu/lab/cgroup.freeze").exists()


def test_processes_are_counted_once_over_all_trees_and_depths(tmp_path: Path) -> None:
    trees = tuple(Hierarchy(tmp_path / name, name, unified=False) for name in ("cpu", "freezer"))
    for tree, pids in zip(trees, ("1 2", "2"), strict=True):
        (tree.mount / "lab" / "node").mkdir(parents=True)
        (tree.mount / "lab" / "cgroup.procs").write_text("3")
        (tree.mount / "lab" / "node" / "cgroup.procs").write_text(pids)
    assert Group("lab", trees).processes() == {1, 2, 3}


def test_removing_a_group_removes_what_is_below_it_and_again_is_fine(tmp_path: Path) -> None:
    (tmp_path / "lab" / "a" / "b").mkdir(parents=True)
    group = Group("lab", (Hierarchy(tmp_path, "", unified=True),))
    group.remove()
    assert not (tmp_path / "lab").exists()
    group.remove()
