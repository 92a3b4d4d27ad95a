"""What a line of the log looks like."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from remediator.clock import ManualClock
from remediator.observe.logs import configure, logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    out = io.StringIO()
    configure("info", clock=ManualClock(1_800_000_000.5), stream=out)
    yield out
    structlog.reset_defaults()
    root.handlers[:], root.level = before


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_record_has_utc_time_with_milliseconds_level_event_and_bound_fields(stream: io.StringIO) -> None:
    logger(stage="web").bind(incident="i1").info("step done", seconds=0.25)
    assert records(stream) == [
        {
            "time": "2027-01-15T08:00:00.500Z",
            "level": "info",
            "event": "step done",
            "stage": "web",
            "incident": "i1",
            "seconds": 0.25,
        }
    ]


def test_logger_made_before_the_configuration_follows_it(stream: io.StringIO) -> None:
    early = logger(stage="early")
    again = io.StringIO()
    configure("info", stream=again)
    early.info("x")
    assert records(again)[0]["stage"] == "early"
    assert stream.getvalue() == ""


def test_lower_levels_are_left_out(stream: io.StringIO) -> None:
    logger().debug("x")
    assert stream.getvalue() == ""


def test_control_characters_cannot_start_a_line_or_move_a_cursor(stream: io.StringIO) -> None:
    hostile = 'a\nb\r\x1b[2J\x00\x7f\x9b\u2028\u202e{"level":"info"}'
    logger().info(hostile, name=hostile, **{hostile: 1})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert all(32 <= ord(letter) < 127 for letter in text[:-1])
    assert records(stream)[0]["name"] == hostile


def test_traceback_is_part_of_the_one_line_and_redacted(stream: io.StringIO) -> None:
    def fail() -> None:
        raise ValueError("sent Authorization: Bearer abc.def")

    try:
        fail()
    except ValueError:
        logger().exception("failed")
    record = records(stream)[0]
    assert "ValueError: sent Authorization: [redacted]" in record["exception"]


def test_libraries_go_through_the_same_chain(stream: io.StringIO) -> None:
    logging.getLogger("urllib3").warning("retry %s", "with token=abc")
    logging.getLogger("urllib3").info("chatter")
    logging.getLogger("x").log(35, "between two levels")
    found = [(one["library"], one["level"], one["event"]) for one in records(stream)]
    assert found == [
        ("urllib3", "warning", "retry with token=[redacted]"),
        ("x", "warning", "between two levels"),
    ]


def test_library_record_whose_arguments_do_not_fit_is_still_written(stream: io.StringIO) -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 0, "arguments that do not fit: %d", ("text",), None)
    for handler in logging.getLogger().handlers:
        if type(handler).__module__.startswith("remediator"):
            handler.handle(record)
    assert records(stream)[0]["event"] == "arguments that do not fit: %d"


class Broken:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_no_value_can_break_the_line(stream: io.StringIO) -> None:
    circle: list[object] = []
    circle.append(circle)
    logger().info(
        "x", a=Broken(), b=circle, c=float("nan"), d=10**5000, e={1: b"\xff"}, f="\ud800", g={Broken(): 1}
    )
    record = records(stream)[0]
    assert record["a"] == "<Broken>"
    assert record["c"] == "nan"
    assert record["e"] == {"1": "\ufffd"}
    assert len(stream.getvalue()) < 20_000
