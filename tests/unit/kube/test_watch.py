"""Bytes to events, however they are cut."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.errors import Ambiguous, RemediatorError, Retry
from remediator.kube.errors import Gone
from remediator.kube.watch import Malformed, events, lines

PATH = "/api/v1/nodes"


def line(kind: str, **obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


@given(texts=st.lists(st.text(max_size=20), max_size=6), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_lines_are_the_same_however_the_bytes_arrive(texts: list[str], cuts: list[int]) -> None:
    whole = b"".join(line("ADDED", text=text) for text in texts)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[start:end] for start, end in itertools.pairwise(edges)]
    assert [event.obj["text"] for event in events(chunks, PATH)] == texts


def test_a_last_line_without_end_is_dropped() -> None:
    assert list(lines([b"one\ntwo\n", b"thr"])) == [b"one", b"two"]


def test_an_endless_line_is_cut_off() -> None:
    with pytest.raises(Malformed):
        list(lines([b"x" * 10] * 3, limit=20))


@pytest.mark.parametrize(
    "bad", [b"{\n", b"[]\n", b'"x"\n', b'{"type":"ADDED"}\n', b"\xff\xfe\n", b"[" * 99999 + b"\n"]
)
def test_a_line_that_is_no_event_is_malformed(bad: bytes) -> None:
    with pytest.raises(Malformed):
        list(events([bad], PATH))


def test_unknown_kinds_are_passed_over() -> None:
    assert [event.kind for event in events([line("NEWKIND"), line("ADDED")], PATH)] == ["ADDED"]


@pytest.mark.parametrize(
    ("code", "kind"), [(410, Gone), (500, Retry), (429, Retry), ("x", Retry), (None, Retry)]
)
def test_an_error_event_means_what_the_status_would(code: object, kind: type[RemediatorError]) -> None:
    with pytest.raises(kind) as caught:
        list(events([line("ERROR", code=code, message="m")], PATH))
    assert not isinstance(caught.value, Ambiguous)
