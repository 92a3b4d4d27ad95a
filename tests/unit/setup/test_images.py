from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from deploy.setup import images, oci
from deploy.setup.cache import REPO, Part, key_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REMEDIATOR_CACHE", str(tmp_path / "cache"))
    return tmp_path


def base(tree: Path, key: str, written: list[str]) -> images.Base:
    def trees() -> list[oci.Tree]:
        written.append(key)
        return [oci.Tree(tree)]

    part = Part(name="p", path=tree, key=key_of(key), build=lambda _: None)
    return images.Base("thing", trees, (part,))


def test_a_base_layer_is_written_once_for_each_state_of_its_parts(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("1")
    written: list[str] = []
    first = images.base_layer(base(tree, "k1", written))
    assert images.base_layer(base(tree, "k1", written)) == first
    (tree / "file").write_text("2")
    assert images.base_layer(base(tree, "k2", written)).digest != first.digest
    assert written == ["k1", "k2"]


def test_a_lost_layer_is_written_again(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    written: list[str] = []
    first = images.base_layer(base(tree, "k1", written))
    first.path.unlink()
    assert images.base_layer(base(tree, "k1", written)).path.exists()


def test_layers_of_older_states_are_dropped_with_their_notes(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    old = images.base_layer(base(tree, "k1", []))
    (tree / "file").write_text("2")
    new = images.base_layer(base(tree, "k2", []))
    (images.blobs() / "layer.tmp-7").touch()
    images._drop_old_blobs({new.path})
    notes = [json.loads(path.read_text())["digest"] for path in images.blobs().glob("*.json")]
    assert not old.path.exists()
    assert notes == [new.digest]
    assert len(list(images.blobs().iterdir())) == 2


def test_every_image_s_program_is_in_the_repository_and_may_be_run() -> None:
    for code in images.CODES:
        if code.program:
            assert (REPO / code.program).stat().st_mode & 0o111, code.program


def test_a_code_image_holds_the_code_and_its_program_and_nothing_compiled(tmp_path: Path) -> None:
    code = next(code for code in images.CODES if code.name == "remediator")
    lower = oci.Layer("sha256:0", 0, tmp_path)
    image = images.code_image(code, {"python": lower, "wheels-service": lower}, tmp_path / "blobs")
    with tarfile.open(image.layers[-1].path) as tar:
        names = tar.getnames()
    assert {"opt/app/remediator/clock.py", "usr/local/bin/remediator"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert image.name == "localhost/remediator:1"
    assert image.env["PYTHONPATH"] == "/opt/app"
