"""People are told once per event, and a channel that fails loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remediator.errors import Retry
from remediator.notify.channels import FileChannel
from remediator.run.outbox import Outbox
from remediator.store import outbox
from remediator.store.outbox import Waiting
from tests.fakes.river import River


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


class Kept:
    """A channel that keeps what it takes, and refuses the first `refuse` messages."""

    def __init__(self, refuse: int = 0) -> None:
        self.taken: list[Waiting] = []
        self.refuse = refuse

    def send(self, waiting: Waiting) -> None:
        if self.refuse:
            self.refuse -= 1
            raise Retry("not now")
        self.taken.append(waiting)


def texts(kept: Kept, audience: str) -> list[str]:
    return [waiting.message.text for waiting in kept.taken if waiting.message.audience == audience]


def test_the_owner_is_told_once_before_and_once_after(river: River) -> None:
    job = river.submit_job()
    river.xid("gpu-0")
    river.run()
    kept = Kept()
    box = Outbox(river.store, [kept], river.clock)
    box.deliver()
    assert box.deliver() == 0
    before, after = texts(kept, "user:alice")
    assert f"job {job} (train) is failing" in before
    assert "restarted once" in before
    assert "RUNNING" in after


def test_a_job_that_is_left_alone_is_told_why(river: River) -> None:
    river.submit_job(width=1, requeue=False)
    river.xid("gpu-0")
    river.run(30.0)
    kept = Kept()
    Outbox(river.store, [kept], river.clock).deliver()
    (told,) = texts(kept, "user:alice")
    assert "left alone because it was submitted with --no-requeue" in told


def test_operators_are_paged_about_a_hold_once(river: River) -> None:
    river.slurm.drain("w-gpu-0", "admin: mine", deadline=5.0)
    river.xid("gpu-0")
    river.run(60.0)
    kept = Kept()
    Outbox(river.store, [kept], river.clock).deliver()
    pages = [waiting for waiting in kept.taken if waiting.message.urgency == "page"]
    assert len(pages) == 1
    assert "admin: mine" in pages[0].message.text


def test_an_overdue_step_pages_once_and_goes_on(river: River) -> None:
    job = river.submit_job()
    river.slurm.is_up = False
    river.xid("gpu-0")
    river.run(60.0)
    river.slurm.is_up = True
    river.run()
    kept = Kept()
    Outbox(river.store, [kept], river.clock).deliver()
    assert sum("takes longer" in text for text in texts(kept, "operators")) == 1
    assert river.job(job).restart_count == 1


def test_a_message_that_is_not_taken_comes_again_later(river: River) -> None:
    river.xid("gpu-0")
    river.run()
    kept = Kept(refuse=2)
    box = Outbox(river.store, [kept], river.clock)
    for _ in range(8):
        box.deliver()
        river.clock.advance(1.0)
    assert len(kept.taken) == 1
    with river.store.read() as connection:
        assert outbox.due(connection, river.clock.now() + 999) == []


def test_the_file_holds_one_json_object_a_line(river: River, tmp_path: Path) -> None:
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    file = tmp_path / "messages.jsonl"
    Outbox(river.store, [FileChannel(file)], river.clock).deliver()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["audience"] for line in lines] == ["user:alice", "user:alice", "operators"]
    assert len({line["id"] for line in lines}) == 3


def test_a_file_that_cannot_be_written_keeps_the_messages(river: River, tmp_path: Path) -> None:
    river.xid("gpu-0")
    river.run()
    box = Outbox(river.store, [FileChannel(tmp_path / "no" / "file")], river.clock)
    assert box.deliver() == 0
    with river.store.read() as connection:
        assert len(outbox.due(connection, river.clock.now() + 999)) == 1


def test_nobody_is_called_twice_because_the_store_cannot_be_told(
    river: River, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: what a channel took is not sent again every five seconds until there is room."""
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    kept = Kept()
    box = Outbox(river.store, [kept], river.clock)
    with monkeypatch.context() as full:
        full.setattr(outbox, "delivered", refuse)
        for _ in range(3):
            with pytest.raises(Retry):
                box.deliver()
    once = len(kept.taken)
    assert once == 1
    while box.deliver():
        pass
    assert len({waiting.id for waiting in kept.taken}) == len(kept.taken) > once


def refuse(*_: object) -> None:
    raise Retry("store: database or disk is full")
