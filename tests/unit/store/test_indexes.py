"""What every turn asks is found by an index, however many rows there have ever been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.store import breakers, debits, incidents, sightings, signals, steps
from remediator.store.engine import open_store

ASKED: dict[str, Any] = {
    "incident_one_open (key=?)": incidents._OPEN_FOR,
    "incident_by_key": incidents._LAST_CLOSED,
    "incident_one_open": incidents._OPEN_COUNT,
    "step_unfinished": steps._READY,
    "(incident=? AND name=?)": steps._DRAINED,
    "step USING INDEX sqlite_autoindex_step_1 (incident=? AND name=?)": steps._FENCED,
    "signal_due (due_at": signals._UNHANDLED,
    "signal_due (due_at>?)": signals._WAITING,
    "signal_of_incident": signals._OF_INCIDENT,
    "sighting_of_cause": sightings._COUNT,
    "incident_one_open (key>? AND key<?)": sightings._GROUPS,
    "incident_by_pool": breakers._SICK.params(pool="p", since=0.0),
    "debit_of_pool": debits._STANDING.params(pool="p", budget="b", first=["x"], until=["close"], since=0.0),
}


@pytest.mark.parametrize("index", ASKED)
def test_a_query_of_every_turn_uses_its_index(tmp_path: Path, index: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    rendered = {"render_postcompile": True}
    text = str(ASKED[index].compile(dialect=store.engine.dialect, compile_kwargs=rendered))
    with store.read() as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("1",) * text.count("?")).all()
    plan = [row[3] for row in rows]
    assert any(index in line for line in plan), plan
    assert not [line for line in plan if line.startswith("SCAN") and "INDEX" not in line], plan


def test_an_older_store_gets_the_indexes_it_lacks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    old = open_store(url)
    with old.write() as connection:
        connection.exec_driver_sql("DROP INDEX step_unfinished")
    old.close()
    store = open_store(url)
    assert "step_unfinished" in {index["name"] for index in sa.inspect(store.engine).get_indexes("step")}
