from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deploy.setup import oci


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "bin/run").write_text("#!/bin/sh\n")
    (root / "bin/run").chmod(0o755)
    (root / "bin/link").symlink_to("run")
    os.link(root / "bin/run", root / "bin/same")
    (root / "proc").mkdir()
    (root / "proc/uptime").write_text("1")
    (root / "empty").mkdir()
    return root


def members(layer: oci.Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return {member.name: member for member in tar}


def read_archive(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The index, and every blob by digest after its content was checked against its name."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {m.name: f.read() for m in tar if (f := tar.extractfile(m))}
    blobs = {
        f"sha256:{name.rsplit('/', 1)[1]}": body for name, body in files.items() if name.startswith("blobs/")
    }
    for digest, body in blobs.items():
        assert digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    return json.loads(files["index.json"]), blobs


def test_a_layer_holds_the_tree_and_leaves_out_what_is_excluded(tree: Path, tmp_path: Path) -> None:
    found = members(oci.layer_from_trees([oci.Tree(tree, "", ("proc/*",))], tmp_path / "blobs"))
    assert list(found) == ["bin", "empty", "proc", "bin/link", "bin/run", "bin/same"]
    assert found["bin/link"].linkname == "run"
    assert found["bin/same"].islnk()
    assert found["bin/run"].mode == 0o755


def test_the_layer_s_name_is_the_hash_of_its_bytes(tree: Path, tmp_path: Path) -> None:
    layer = oci.layer_from_trees([oci.Tree(tree)], tmp_path / "blobs")
    data = layer.path.read_bytes()
    assert layer.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert layer.size == len(data)
    assert [p.name for p in (tmp_path / "blobs").iterdir()] == [layer.path.name]


def test_equal_code_is_an_equal_layer_whatever_its_times_and_owners(tree: Path, tmp_path: Path) -> None:
    first = oci.layer_from_trees([oci.Tree(tree, "opt/app")], tmp_path / "blobs", mtime=oci.CODE_TIME)
    os.utime(tree / "bin/run", (5, 5))
    (tree / "bin/run").chmod(0o700)
    second = oci.layer_from_trees([oci.Tree(tree, "opt/app")], tmp_path / "blobs", mtime=oci.CODE_TIME)
    assert first.digest == second.digest
    assert {(m.uid, m.mtime) for m in members(first).values()} == {(0, oci.CODE_TIME)}


def test_the_folders_above_a_target_are_there_and_open_to_every_user(tree: Path, tmp_path: Path) -> None:
    found = members(
        oci.layer_from_trees([oci.Tree(tree / "bin/run", "usr/local/bin/run")], tmp_path / "blobs")
    )
    assert list(found) == ["usr", "usr/local", "usr/local/bin", "usr/local/bin/run"]
    assert {found[name].mode for name in list(found)[:3]} == {0o755}


def test_a_socket_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        assert members(oci.layer_from_trees([oci.Tree(root)], tmp_path / "blobs")) == {}


def test_an_archive_reads_back_as_the_images_that_were_written(tree: Path, tmp_path: Path) -> None:
    layer = oci.layer_from_trees([oci.Tree(tree)], tmp_path / "blobs")
    image = oci.Image("localhost/a:1", (layer,), ("/bin/run",), {"B": "2", "A": "1"}, "/bin")
    out = io.BytesIO()
    oci.write_archive([image, oci.Image("localhost/b:1", (layer,))], out)
    index, blobs = read_archive(out.getvalue())
    names = [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]]
    manifest = json.loads(blobs[index["manifests"][0]["digest"]])
    config = json.loads(blobs[manifest["config"]["digest"]])
    assert names == ["localhost/a:1", "localhost/b:1"]
    assert manifest["layers"] == [{"mediaType": oci._LAYER, "digest": layer.digest, "size": layer.size}]
    assert config["rootfs"]["diff_ids"] == [layer.digest]
    assert config["config"] == {
        "Env": [oci.PATH_ENV, "A=1", "B=2"], "Entrypoint": ["/bin/run"], "WorkingDir": "/bin",
    }  # fmt: skip
    assert layer.digest in blobs


def test_layers_that_the_reader_has_are_left_out_but_still_named(tree: Path, tmp_path: Path) -> None:
    known = oci.layer_from_trees([oci.Tree(tree)], tmp_path / "blobs")
    new = oci.layer_from_trees([oci.Tree(tree / "bin", "x")], tmp_path / "blobs")
    out = io.BytesIO()
    oci.write_archive([oci.Image("localhost/a:1", (known, new))], out, omit={known.digest})
    index, blobs = read_archive(out.getvalue())
    manifest = json.loads(blobs[index["manifests"][0]["digest"]])
    assert known.digest not in blobs
    assert new.digest in blobs
    assert [entry["digest"] for entry in manifest["layers"]] == [known.digest, new.digest]
