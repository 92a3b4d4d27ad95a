"""Tokens as slurmctld checks them, and their renewal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.lab.slinky import tokens

KEY = bytes(range(32))
TOKEN: dict[str, Any] = {
    "metadata": {"name": "remediator", "namespace": "slurm", "uid": "tu"},
    "spec": {"username": "slurm", "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"}},
}


def test_token_is_hs256_over_the_raw_key() -> None:
    head, payload, signature = tokens.issue(KEY, "slurm", 60, 1000.5).split(".")
    digest = hmac.new(KEY, f"{head}.{payload}".encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == digest
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "HS256", "typ": "JWT"}


def test_claims_name_the_user_and_the_times() -> None:
    claims = tokens.claims_of(tokens.issue(KEY, "slurm", 60, 1000.5), KEY)
    assert {k: claims[k] for k in ("sun", "iat", "exp", "iss")} == {
        "sun": "slurm",
        "iat": 1000,
        "exp": 1060,
        "iss": "slurm-operator",
    }


@given(st.binary(min_size=1, max_size=64), st.text(min_size=1, max_size=20))
def test_claims_come_back_only_with_the_key(key: bytes, user: str) -> None:
    token = tokens.issue(key, user, 60, 1000)
    assert tokens.claims_of(token, key)["sun"] == user
    assert tokens.claims_of(token, key + b"x") == {}


@pytest.mark.parametrize("text", ["", ".", "a.b.c", "é.b.c", "...."])
def test_what_is_no_token_has_no_claims(text: str) -> None:
    assert tokens.claims_of(text, KEY) == {}


def test_renewal_is_due_at_80_percent() -> None:
    claims = tokens.claims_of(tokens.issue(KEY, "slurm", 3600, 1000), KEY)
    assert tokens.renew_at(claims, 3600) == 1000 + 0.8 * 3600
    assert tokens.renew_at({}, 3600) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", 3600),
        ("15m0s", 900),
        ("1h0m0s", 3600),
        ("1.5h", 5400),
        ("20s", 20),
        ("500ms", 0.5),
        (None, 900),
    ],
)
def test_durations_of_go(text: str | None, expected: float) -> None:
    assert tokens.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "1", "h", "1d", "1h ", "-1h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        tokens.seconds(text)


def test_secret_is_named_after_token_and_user() -> None:
    made = tokens.secret(TOKEN, "jwt")
    assert made["metadata"]["name"] == "remediator-jwt-slurm"
    assert base64.b64decode(made["data"]["SLURM_JWT"]) == b"jwt"
    assert not made["immutable"]


def test_secret_ref_wins() -> None:
    spec = {**TOKEN["spec"], "secretRef": {"name": "other", "key": "token"}}
    assert tokens.secret_name({**TOKEN, "spec": spec}) == ("other", "token")
