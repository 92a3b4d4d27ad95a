"""A long task is heard of, whether it talks or not."""

from __future__ import annotations

import time

import pytest

from deploy.setup.progress import Ticker


def test_a_task_that_says_nothing_is_said_to_be_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker("thing", every=0.02):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert all("at work" in line for line in lines)


def test_its_last_words_are_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker("thing", every=0.05) as ticker:
        ticker.update("Installing")
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert all("Installing" in line for line in lines)


def test_a_short_task_is_not_talked_about(capsys: pytest.CaptureFixture[str]) -> None:
    with Ticker("thing", every=60):
        pass
    assert capsys.readouterr().err == ""
