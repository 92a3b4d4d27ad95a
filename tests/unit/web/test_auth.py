"""Which tokens open the agents' door, and for how long that is remembered."""

from __future__ import annotations

import pytest

from remediator.errors import Retry
from remediator.web.auth import MOST_DENIED
from remediator.web.replies import Refused, Unauthenticated
from tests.unit.web.world import Verdict, World


def test_accepted_token_is_asked_about_once_a_minute(world: World) -> None:
    for _ in range(3):
        assert world.auth.sender("Bearer good").node == "gpu-1"
    world.clock.advance(59)
    world.auth.sender("Bearer good")
    assert world.reviews == ["good"]
    world.clock.advance(2)
    world.auth.sender("Bearer good")
    assert world.reviews == ["good", "good"]


def test_token_withdrawn_meanwhile_is_refused_after_a_minute(world: World) -> None:
    world.auth.sender("Bearer good")
    world.tokens.clear()
    world.clock.advance(61)
    with pytest.raises(Unauthenticated):
        world.auth.sender("Bearer good")


def test_denied_token_is_asked_about_again_after_five_seconds(world: World) -> None:
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            world.auth.sender("Bearer new")
    assert world.reviews == ["new"]
    world.tokens["new"] = Verdict()
    world.clock.advance(6)
    assert world.auth.sender("Bearer new").node == "gpu-1"


def test_wall_clock_steps_do_not_prolong_a_verdict(world: World) -> None:
    world.auth.sender("Bearer good")
    world.clock.jump(-3600)
    world.clock.advance(61)
    world.auth.sender("Bearer good")
    assert len(world.reviews) == 2


def test_missing_answer_is_no_verdict(world: World) -> None:
    world.review_fails = True
    with pytest.raises(Retry):
        world.auth.sender("Bearer good")
    world.review_fails = False
    assert world.auth.sender("Bearer good").authenticated


def test_made_up_tokens_do_not_push_out_accepted_ones(world: World) -> None:
    world.auth.sender("Bearer good")
    for number in range(MOST_DENIED + 10):
        with pytest.raises(Unauthenticated):
            world.auth.sender(f"Bearer made-up-{number}")
    world.reviews.clear()
    world.auth.sender("Bearer good")
    with pytest.raises(Unauthenticated):
        world.auth.sender("Bearer made-up-0")
    assert world.reviews == ["made-up-0"]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer  ", "Basic good", "Bearer a\x00b", "Bearer " + "x" * 9000]
)
def test_what_cannot_be_a_token_is_not_asked_about(header: str | None, world: World) -> None:
    with pytest.raises(Unauthenticated):
        world.auth.sender(header)
    assert world.reviews == []


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [(Verdict(username="system:serviceaccount:remediator:other"), "account"), (Verdict(node=""), "unbound")],
)
def test_known_sender_that_is_no_agent_is_refused(verdict: Verdict, reason: str, world: World) -> None:
    world.tokens["other"] = verdict
    with pytest.raises(Refused) as caught:
        world.auth.sender("Bearer other")
    assert caught.value.reason == reason


def test_token_is_in_no_error(world: World) -> None:
    with pytest.raises(Unauthenticated) as caught:
        world.auth.sender("Bearer SECRETVALUE")
    assert "SECRETVALUE" not in repr(caught.value)
