"""The token: renewed under us, refused by Slurm, never shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from remediator.clock import SystemClock
from remediator.errors import GiveUp, RemediatorError
from slurm_bridge.rest.backend import RestSlurm
from slurm_bridge.rest.token import FileToken
from tests.servers.wire import Reply, Request, reply_json, wire
from tests.unit.slurm.answers import error, slurmrestd, whole

DEADLINE = 5.0
REFUSED = {
    "401 in plain text": Reply(401, b"Authentication failure"),
    "511 with number 1007": reply_json(error(1007, "Protocol authentication error"), 511),
    "a ping that is 200": reply_json(whole({"pings": [{"status": "Protocol authentication error"}]})),
}


@pytest.mark.parametrize("reply", REFUSED.values(), ids=REFUSED.keys())
def test_a_token_renewed_meanwhile_is_tried_once(reply: Reply, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old-token\n")
    good = slurmrestd()

    def answer(request: Request) -> Reply:
        if request.headers["X-SLURM-USER-TOKEN"] == "new-token":
            return good(request)
        path.write_text("new-token\n")
        return reply

    with wire(answer) as it:
        RestSlurm(it.url, "slurm", FileToken(path), SystemClock()).ping(deadline=DEADLINE)
        assert len(it.requests) == 3


@pytest.mark.parametrize("reply", REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_token_gives_up_after_one_request(reply: Reply) -> None:
    with wire(lambda _: reply) as it:
        with pytest.raises(GiveUp, match="token refused"):
            RestSlurm(it.url, "slurm", lambda: "old", SystemClock()).ping(deadline=DEADLINE)
        assert len(it.requests) == 1


@pytest.mark.parametrize("reply", REFUSED.values(), ids=REFUSED.keys())
def test_the_file_of_a_refused_token_is_named_and_its_text_is_not(reply: Reply, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sesame\n")
    with wire(lambda _: reply) as it, pytest.raises(GiveUp, match="renew ") as raised:
        RestSlurm(it.url, "slurm", FileToken(path), SystemClock()).ping(deadline=DEADLINE)
    assert str(path) in str(raised.value)
    assert "sesame" not in str(raised.value)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GiveUp, match=r"nope.*No such file"):
        FileToken(tmp_path / "nope")()


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "gelöscht"])
def test_a_file_without_a_token_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(GiveUp, match="not a token"):
        FileToken(path)()


def test_scontrols_own_output_is_a_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("SLURM_JWT=abc.def.ghi\n")
    assert FileToken(path)() == "abc.def.ghi"


FAULTS = {
    "dropped": Reply(drop=True),
    "garbage": Reply(200, b"<"),
    "refused": Reply(401, b"no"),
    "error 500": Reply(500, b"X-SLURM-USER-TOKEN: s3cr3t"),
    "late": Reply(hold=60),
}


@pytest.mark.parametrize("reply", FAULTS.values(), ids=FAULTS.keys())
def test_no_error_and_no_log_line_shows_the_token(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with wire(lambda _: reply) as it:
        slurm = RestSlurm(it.url, "slurm", lambda: "s3cr3t", SystemClock())
        with pytest.raises(RemediatorError) as raised:
            slurm.nodes(deadline=0.5)
    shown = repr(raised.value) + repr(raised.value.__cause__) + caplog.text
    assert "s3cr3t" not in shown
