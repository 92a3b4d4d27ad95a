"""No secret reaches a log line, wherever it stands."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from remediator.observe.logs import render
from remediator.observe.redact import HIDDEN, redact, secret_key

URLSAFE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
SECRET_KEYS = [
    "token",
    "authorization",
    "password",
    "secret",
    "X-SLURM-USER-TOKEN",
    "clientSecret",
    "SLURM_JWT",
]

opaque = st.text(URLSAFE, min_size=12, max_size=60).map(lambda text: f"s3cr3t{text}")
text = st.text(max_size=40)


@st.composite
def jwts(draw: st.DrawFn) -> str:
    """A token as Slurm and Kubernetes make them: three base64url parts, the first a JSON object."""
    claims = draw(
        st.dictionaries(
            st.text(URLSAFE, min_size=5, max_size=9), st.text(URLSAFE, max_size=20), min_size=1, max_size=3
        )
    )
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps(claims)]
    encoded = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, draw(st.text(URLSAFE, min_size=20, max_size=60))])


def line(**fields: Any) -> str:
    return render(None, "info", {"event": "x", **fields})


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda below: (
            st.lists(below, max_size=3) | st.dictionaries(text, below, max_size=3) | st.tuples(below)
        ),
        max_leaves=5,
    )


def place(value: Any, at: str, depth: int) -> dict[str, Any]:
    """`value` under the key `at`, `depth` levels down through mappings and lists."""
    for level in range(depth):
        value = {at: value} if level == 0 else {"below": [value]}
    return {"below": value} if depth else {at: value}


@given(jwts(), text, text, st.integers(0, 3))
def test_jwt_is_hidden_in_any_text_at_any_depth(jwt: str, before: str, after: str, depth: int) -> None:
    written = str(json.loads(line(**place(f"{before}{jwt}{after}", "note", depth))))
    for part in jwt.split("."):
        assume(part not in before + after)
        assert part not in written


@given(
    opaque, st.sampled_from(["Bearer ", "bearer ", "BEARER  ", "Authorization: Bearer ", "bearer: "]), text
)
@example("s3cr3t", "Bearer ", "BEARER")
def test_bearer_token_is_hidden_in_any_text(secret: str, word: str, before: str) -> None:
    assert secret not in line(note=f"{before} {word}{secret}", event=f"{word}{secret} refused")


@given(opaque, st.sampled_from(SECRET_KEYS), st.integers(0, 4), st.booleans())
def test_value_under_a_secret_key_is_hidden_whatever_it_is(
    secret: str, key: str, depth: int, upper: bool
) -> None:
    name = key.upper() if upper else key
    written = line(**place({"any": [secret, secret.encode()]}, name, depth))
    assert secret not in written
    assert HIDDEN in written


SHAPES = [
    "{key}={value}",
    "{key}: {value}",
    '"{key}": "{value}"',
    "'{key}': b'{value}'",
    '{{\\"{key}\\": \\"{value}\\"}}',
]


@given(opaque, st.sampled_from(SECRET_KEYS), st.sampled_from(SHAPES), text)
@example("s3cr3t", "token", "{key}: {value}", "password:")
@example("s3cr3t", "token", "{key}: {value}", "token_path:")
def test_assignment_in_a_text_is_hidden(secret: str, key: str, shape: str, before: str) -> None:
    assert secret not in line(note=before + " " + shape.format(key=key, value=secret))


@given(opaque, opaque)
@example("s3cr3t_jwt", "s3cr3t_token")
def test_credentials_in_a_url_are_hidden(user: str, password: str) -> None:
    written = line(url=f"https://{user}:{password}@slurm:6820/x")
    assert user not in written
    assert password not in written
    assert "slurm:6820/x" in written


@given(
    st.dictionaries(
        text, nested(text | st.none() | st.floats() | st.integers() | st.binary(max_size=20)), max_size=4
    )
)
def test_every_record_is_one_line_of_printable_json(fields: dict[str, Any]) -> None:
    written = render(None, "info", {"event": "x", **fields})
    assert all(32 <= ord(letter) < 127 for letter in written)
    json.loads(written, parse_constant=pytest.fail)


@given(st.text("abcdefghij .,:/_-0123456789", max_size=200))
def test_text_without_secrets_is_kept(plain: str) -> None:
    """The alphabet leaves out what the words and marks of a secret need."""
    assert redact(plain) == plain


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ("token", True),
        ("SlurmToken", True),
        ("set-cookie", True),
        ("token_path", False),
        ("secret_name", False),
        ("node", False),
    ],
)
def test_paths_and_names_of_secrets_are_no_secrets(key: str, hidden: bool) -> None:
    assert secret_key(key) is hidden
    assert ("/run/x" in line(**{key: "/run/x"})) is not hidden


def test_very_long_text_is_cut_and_its_secrets_stay_hidden() -> None:
    written = line(note="x" * 65_000 + "password='abc def " + "y" * 100_000)
    assert len(written) < 9000
    assert "abc def" not in written
