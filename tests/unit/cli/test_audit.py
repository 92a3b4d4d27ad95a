"""`remediator audit`: the exit status is the verdict, and an export proves itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from remediator.cli.main import app
from remediator.model.record import GENESIS, chain_hash
from remediator.store.engine import open_store
from tests.fakes.river import River
from tests.unit.cli.test_incidents import SETTINGS


class World:
    """A store that the river wrote, and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "settings.yaml").write_text(SETTINGS % folder)

    def run(self, *arguments: str) -> Result:
        command = ["audit", *arguments, "--settings", str(self.folder / "settings.yaml")]
        return CliRunner().invoke(app, command)

    def tamper(self, statement: str) -> None:
        """What somebody with the file in hand can do."""
        store = open_store(f"sqlite:///{self.folder}/river.db")
        with store.write() as connection:
            for verb in ("update", "delete"):
                connection.execute(sa.text(f"DROP TRIGGER audit_no_{verb}"))
            connection.execute(sa.text(statement))
        store.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    river = River(tmp_path)
    river.submit_job()
    river.xid("gpu-0")
    river.run()
    river.store.close()
    return World(tmp_path)


def test_an_untouched_record_is_status_zero(world: World) -> None:
    done = world.run("verify")
    assert done.exit_code == 0
    assert done.stdout.startswith("audit: ok (")


def test_an_empty_record_is_whole(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/river.db").close()
    done = World(tmp_path).run("verify")
    assert (done.exit_code, done.stdout) == (0, "audit: ok (0 records)\n")


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("UPDATE audit SET body = replace(body, 'gpu-0', 'gpu-1') WHERE seq = 3", 3),
        ("DELETE FROM audit WHERE seq = 2", 3),
        ("UPDATE audit SET body = 'x' WHERE seq = 4", 4),
    ],
)
def test_a_changed_record_is_status_one_and_named(world: World, statement: str, number: int) -> None:
    world.tamper(statement)
    done = world.run("verify")
    assert done.exit_code == 1
    assert done.stdout.startswith(f"audit: broken at record {number}: ")


def test_the_verdict_as_json(world: World) -> None:
    before = json.loads(world.run("verify", "--json").stdout)
    assert before["ok"] is True
    assert before["broken_at"] is None
    world.tamper("DELETE FROM audit WHERE seq = 2")
    done = world.run("verify", "--json")
    after = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (after["ok"], after["broken_at"]) == (False, 3)
    assert after["problem"]


def exported(world: World) -> list[dict[str, object]]:
    done = world.run("export")
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_export_can_be_verified_by_itself(world: World) -> None:
    """With nothing but SHA-256 and JSON: sorted keys, no blanks, UTF-8."""
    verdict = json.loads(world.run("verify", "--json").stdout)
    records, previous = exported(world), GENESIS
    assert len(records) == verdict["records"] > 10
    for record in records:
        claimed = record.pop("hash")
        body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = chain_hash(previous, body)
        assert previous == claimed, record
    assert previous == verdict["head"]


def test_an_export_is_the_whole_record_in_order(world: World) -> None:
    records = exported(world)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["action"] for record in records} >= {"decision", "intent", "outcome", "incident-closed"}


@pytest.mark.parametrize("verb", ["verify", "export"])
def test_without_a_store_it_is_one_line_and_status_two(tmp_path: Path, verb: str) -> None:
    done = World(tmp_path).run(verb)
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "river.db").exists()


def test_a_file_that_is_no_database_is_one_line_and_status_two(tmp_path: Path) -> None:
    (tmp_path / "river.db").write_bytes(b"SQLite format 3\x00" + os.urandom(4096))
    done = World(tmp_path).run("verify")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: store.url")
