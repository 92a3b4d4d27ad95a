"""Sources hand over each record once, and say when records were lost or a boot began."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from remediator.agent.file_tail import FileSource
from remediator.agent.journald import JournaldSource
from remediator.agent.kmsg_device import KmsgSource
from remediator.agent.main import wait
from remediator.agent.records import Gap, Item, Record, Restarted, read_record
from remediator.agent.sources import Source
from remediator.agent.state import Cursor
from remediator.agent.stream import Lines
from tests.unit.agent.helpers import BOOT, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def _texts(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, Record)]


def _until(source: Source, enough: Callable[[list[Item]], bool]) -> list[Item]:
    """Read until `enough` of the items have come; a source that stays silent fails by the test's time-out."""
    items: list[Item] = []
    while not enough(items):
        wait([source.fileno() or 0], 0.05)
        items += source.read()
    return items


def test_kernel_escapes_are_undone() -> None:
    record = read_record(rb"3,1,2,-;NVRM: a\x0aNVRM: b \xc3\xa9")
    assert record is not None
    assert record.text == "NVRM: a\nNVRM: b é"


def test_lines_that_a_program_wrote_are_not_the_kernels() -> None:
    assert read_record(b"12,1,2,-;NVRM: Xid (PCI:0000:01:00): 79, fake") is None
    assert read_record(b"4,1,2,-,caller=T1;real") is not None


@pytest.mark.parametrize(
    "data", [b"", b"x", b"3,1,2", b"3,1;x", b"3,99999999999999999999,2,-;x", b"\xff\x00,1,2,-;"]
)
def test_malformed_records_are_passed_over(data: bytes) -> None:
    assert read_record(data) is None


def test_lines_survive_any_chunks() -> None:
    data = b"one\ntwo\n\nthree\nfour"
    for size in range(1, len(data) + 1):
        lines = Lines()
        found = [line for at in range(0, len(data), size) for line, _ in lines.feed(data[at : at + size])]
        assert found == [b"one", b"two", b"", b"three"]


def test_endless_line_is_cut_and_the_next_one_is_whole() -> None:
    lines = Lines(limit=10)
    found = [line for chunk in (b"x" * 100, b"y" * 100, b"z\nnext\n") for line, _ in lines.feed(chunk)]
    assert found == [b"x" * 10, b"next"]


def test_file_is_followed_from_its_start(node: Node) -> None:
    node.print("one")
    source = FileSource(node.log, None)
    assert _texts(source.read()) == ["one"]
    assert source.read() == []
    node.print("two")
    assert _texts(source.read()) == ["two"]


def test_half_a_line_waits_for_its_other_half(node: Node) -> None:
    source = FileSource(node.log, None)
    whole = node.record("one")
    with node.log.open("ab", buffering=0) as file:
        file.write(whole[:7])
        assert source.read() == []
        file.write(whole[7:])
    assert _texts(source.read()) == ["one"]


def test_file_continues_at_the_cursor(node: Node) -> None:
    node.print("one")
    node.print("two")
    items = FileSource(node.log, None).read()
    assert isinstance(items[0], Record)
    source = FileSource(node.log, Cursor(boot_id=BOOT, seq=items[0].seq, place=items[0].place))
    assert _texts(source.read()) == ["two"]


def test_cursor_of_another_file_reads_from_the_start(node: Node) -> None:
    node.print("one")
    for place in ("", "1:2", f"{node.log.stat().st_ino}:5:0", f"{node.log.stat().st_ino}:99999", "x:y"):
        assert _texts(FileSource(node.log, Cursor(boot_id=BOOT, seq=1, place=place)).read()) == ["one"]


def test_file_with_two_boots_begins_with_the_last_one(node: Node) -> None:
    node.seq = 500
    node.print("old boot")
    node.seq = 0
    node.print("new boot")
    assert _texts(FileSource(node.log, None).read()) == ["new boot"]


def test_numbers_that_go_back_are_a_new_boot(node: Node) -> None:
    node.seq = 500
    node.print("old boot")
    source = FileSource(node.log, None)
    source.read()
    node.seq = 0
    node.print("new boot")
    items = source.read()
    assert items[0] == Restarted()
    assert _texts(items) == ["new boot"]


def test_truncated_file_is_a_new_boot(node: Node) -> None:
    node.print("a line that is longer than the next")
    source = FileSource(node.log, None)
    source.read()
    node.seq = 0
    node.log.write_bytes(node.record("new"))
    items = source.read()
    assert items[0] == Restarted()
    assert _texts(items) == ["new"]


def test_replaced_file_loses_no_line_of_either(node: Node) -> None:
    source = FileSource(node.log, None)
    node.print("last of the old")
    node.seq = 0
    (node.root / "new").write_bytes(node.record("first of the new"))
    (node.root / "new").replace(node.log)
    items = source.read()
    assert _texts(items) == ["last of the old", "first of the new"]
    assert items[1] == Restarted()


def test_file_may_appear_later(node: Node) -> None:
    node.log.unlink()
    source = FileSource(node.log, None)
    assert source.read() == []
    node.print("one")
    assert _texts(_until(source, bool)) == ["one"]


def test_jump_in_the_numbers_is_a_gap(node: Node) -> None:
    node.print("one")
    node.seq += 5
    node.print("two")
    assert FileSource(node.log, None).read()[1] == Gap(2, 5)


def test_a_programs_line_leaves_no_gap(node: Node) -> None:
    node.print("one")
    node.print("from a program", prio=12)
    node.print("two")
    assert [type(item) for item in FileSource(node.log, None).read()] == [Record, Record]


def test_long_backlog_comes_in_parts(node: Node) -> None:
    with node.log.open("wb") as file:
        file.writelines(node.record("x" * 200) for _ in range(5000))
    source = FileSource(node.log, None)
    sizes = [len(source.read())]
    while source.more:
        sizes.append(len(source.read()))
    assert sum(sizes) == 5000
    assert len(sizes) > 1


def test_write_wakes_the_wait(node: Node) -> None:
    """A wait that only ends by its time-out would hang until the test is killed."""
    source = FileSource(node.log, None)
    source.read()
    node.print("one")
    wait([source.fileno() or 0], 3600)
    assert _texts(source.read()) == ["one"]


def test_device_passes_over_what_was_acknowledged(tmp_path: Path) -> None:
    fifo = tmp_path / "kmsg"
    os.mkfifo(fifo)
    source = KmsgSource(fifo, Cursor(boot_id=BOOT, seq=4))
    with fifo.open("wb", buffering=0) as device:
        items: list[Item] = []
        for line in (b"3,4,0,-;old\n", b"3,5,0,-;new\n SUBSYSTEM=pci\n", b"3,9,0,-;later\n"):
            device.write(line)
            items += source.read()
    assert items == [Record(5, 0, "new"), Gap(6, 3), Record(9, 0, "later")]


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="/dev/kmsg cannot be read here")
def test_real_device_is_read_from_the_boot_on() -> None:
    source = KmsgSource(Path("/dev/kmsg"), None)
    items = source.read()
    source.close()
    numbers = [item.seq for item in items if isinstance(item, Record)]
    assert numbers
    assert numbers == sorted(set(numbers))


JOURNALCTL = """#!/bin/sh
echo "$@" >> {root}/calls
case "$*" in *after-cursor=s=rotated*) exit 1;; *after-cursor*) exec cat {root}/rest;; esac
cat {root}/journal
exec cat {root}/more
"""


def _entry(usec: int, message: object, **changes: object) -> str:
    entry = {
        "MESSAGE": message,
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(usec),
        "__CURSOR": f"s=1;i={usec:x}",
    }
    return json.dumps(entry | changes) + "\n"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journalctl that prints prepared entries: this machine may run no journald."""
    program = tmp_path / "journalctl"
    program.write_text(JOURNALCTL.format(root=tmp_path))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("journal", "more", "rest"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_journal_gives_only_lines_of_the_kernel(journal: Path) -> None:
    (journal / "journal").write_text(
        _entry(10, "fake", _TRANSPORT="syslog")
        + _entry(11, "fake", SYSLOG_FACILITY="1")
        + "not json\n[]\n"
        + _entry(12, "one")
        + _entry(12, [116, 119, 111, 10])
        + _entry(13, None)
    )
    source = JournaldSource(None)
    items = _until(source, lambda found: len(found) == 3)
    source.close()
    assert _texts(items) == ["one", "two\n", ""]
    assert [item.seq for item in items if isinstance(item, Record)] == [192, 193, 208]


def test_journal_goes_on_after_the_cursor_when_its_reader_dies(journal: Path) -> None:
    (journal / "journal").write_text(_entry(10, "one"))
    (journal / "rest").write_text(_entry(11, "two"))
    source = JournaldSource(None)
    items = _until(source, lambda found: len(found) == 2)
    source.close()
    assert _texts(items) == ["one", "two"]
    assert "--after-cursor=s=1;i=a" in (journal / "calls").read_text().splitlines()[1]


def test_rotated_cursor_is_a_gap_and_repeats_nothing(journal: Path) -> None:
    (journal / "journal").write_text(_entry(10, "seen") + _entry(20, "new"))
    source = JournaldSource(Cursor(boot_id=BOOT, seq=10 * 16, place="s=rotated"))
    items = _until(source, lambda found: len(found) == 2)
    source.close()
    assert items[0] == Gap(161, None)
    assert _texts(items) == ["new"]


def test_cursor_that_is_no_cursor_reaches_no_command_line(journal: Path) -> None:
    (journal / "journal").write_text(_entry(10, "one"))
    source = JournaldSource(Cursor(boot_id=BOOT, seq=-1, place="--file=/etc/passwd"))
    _until(source, bool)
    source.close()
    assert "passwd" not in (journal / "calls").read_text()
