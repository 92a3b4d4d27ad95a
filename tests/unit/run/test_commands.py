"""What people ask for by the command line, answered on the record by the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.store import commands
from remediator.store.commands import Command
from tests.fakes.river import River


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def tell(river: River, verb: str, argument: str = "") -> Command:
    wanted = Command(f"{verb}-{river.clock.now()}", verb, argument, "ann", river.clock.now())
    with river.store.write() as connection:
        commands.ask(connection, wanted)
    river.turn()
    with river.store.read() as connection:
        found = commands.get(connection, wanted.id)
    assert found is not None
    assert found.answered_at is not None
    return found


def test_a_pause_stops_every_write_and_outlives_a_restart(river: River) -> None:
    job = river.submit_job()
    assert tell(river, "pause").done
    river.xid("gpu-0")
    river.run(10.0)
    river.begin()
    river.run(10.0)
    assert river.slurm.writes == []
    assert river.kube.writes == []
    assert len(river.open_incidents()) == 1
    assert "ann" in tell(river, "resume").answer
    river.run()
    assert river.job(job).restart_count == 1


def test_a_hold_stops_one_incident_and_a_release_lets_it_go_on(river: River) -> None:
    first, second = river.submit_job(width=1), river.submit_job(width=1)
    river.xid("gpu-0")
    river.turn()
    held = river.open_incidents()[0].id
    assert tell(river, "hold", held).done
    river.xid("gpu-1")
    river.run(30.0)
    assert river.job(second).restart_count == 1
    assert river.job(first).restart_count == 0
    assert [incident.state for incident in river.open_incidents()] == ["held"]
    assert tell(river, "release", held).done
    river.run()
    assert river.job(first).restart_count == 1


@pytest.mark.parametrize(
    ("verb", "argument", "says"),
    [
        ("hold", "nobody", "there is no incident"),
        ("release", "", "there is no incident"),
        ("fly", "", "no such"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    river: River, verb: str, argument: str, says: str
) -> None:
    found = tell(river, verb, argument)
    assert not found.done
    assert says in found.answer


def test_a_closed_incident_cannot_be_held(river: River) -> None:
    river.xid("gpu-0")
    river.run()
    closed = river.all_incidents()[0].id
    assert "closed already" in tell(river, "hold", closed).answer


def test_every_command_is_on_the_record_with_its_actor(river: River) -> None:
    tell(river, "pause")
    tell(river, "hold", "nobody")
    with river.store.read() as connection:
        records = [record for record in chain.read(connection) if record["action"] == "command"]
    assert [record["outcome"] for record in records] == ["done", "refused"]
    assert all("ann asked" in record["why"] for record in records)
