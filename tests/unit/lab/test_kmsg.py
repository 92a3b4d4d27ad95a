from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.lab import kmsg
from deploy.lab.errors import LabError
from deploy.lab.spec import GPU_PCI

RECORD = re.compile(rb"3,(\d+),(\d+),-;([\x20-\x7e]*)\n")


@pytest.fixture
def node_dir(tmp_path: Path) -> Path:
    (tmp_path / "kmsg").write_text("")
    (tmp_path / "booted_at").write_text("0.0\n")
    return tmp_path


def test_records_have_the_form_of_the_kernel_and_count_up(node_dir: Path) -> None:
    assert [kmsg.append(node_dir, text) for text in ("one", "two", "three")] == [0, 1, 2]
    found = RECORD.findall((node_dir / "kmsg").read_bytes())
    assert [(int(sequence), text) for sequence, _, text in found] == [(0, b"one"), (1, b"two"), (2, b"three")]
    assert [int(time) for _, time, _ in found] == sorted(int(time) for _, time, _ in found)


def test_writers_side_by_side_never_share_a_sequence_number(node_dir: Path) -> None:
    threads = [threading.Thread(target=kmsg.append, args=(node_dir, "x")) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [int(sequence) for sequence, _, _ in RECORD.findall((node_dir / "kmsg").read_bytes())]
    assert found == list(range(20))


@given(st.text(max_size=60))
def test_any_text_stays_one_record_and_can_be_read_back(text: str) -> None:
    escaped = kmsg.escape(text)
    assert RECORD.fullmatch(f"3,0,0,-;{escaped}\n".encode())
    back = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), escaped)
    assert back.encode("latin-1").decode() == text


def test_a_node_that_was_never_on_has_no_log(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is the lab up"):
        kmsg.append(tmp_path, "x")


def test_xid_lines_name_the_gpu_they_are_about() -> None:
    assert kmsg.xid_line(79, 2) == (
        f"NVRM: Xid (PCI:{GPU_PCI[2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )


def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(LabError, match="no GPU 8"):
        kmsg.xid_line(79, 8)
