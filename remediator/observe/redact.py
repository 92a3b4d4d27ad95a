"""Keep secrets out of text and values that people will read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[redacted]"
LONGEST = 8192
DEEPEST = 8
WIDEST = 200
WORDS = r"(?:token|authorization|password|passwd|secret|jwt|cookie|credential)"
HARMLESS = ("path", "name", "audience")

_KEY = re.compile(WORDS, re.IGNORECASE)
_USERINFO = re.compile(r"://[^/\s@]{1,1000}@")
_BEARER = re.compile(r"(?:bearer[\s:=]+)+[^\s\"',;]+", re.IGNORECASE)
_JWT = re.compile(r"eyJ[\w.=+/-]{4,}")
# `token=abc`, `"password": "a b"`, `Authorization: Basic abc`, also inside escaped JSON
_ASSIGNED = re.compile(
    rf"(?P<head>(?:{WORDS}[\w-]{{0,40}}[\\\"']{{0,4}}\s{{0,3}}[:=]\s{{0,3}})+)"
    r"(?:(?:bearer|basic)\s+)*"
    r"(?:b?\\*\"[^\"]*(?:\"|$)|b?\\*'[^']*(?:'|$)|[^\s,;&)}\]]+)",
    re.IGNORECASE,
)


def secret_key(key: str) -> bool:
    """Whether the value under `key` is hidden whatever it looks like; `token_path` and the like are not."""
    return bool(_KEY.search(key)) and not key.lower().endswith(HARMLESS)


def redact(text: str) -> str:
    """`text` without tokens, passwords and credentials in URLs, shortened in the middle when very long."""
    # URLs first: an account called `jwt` would pass for the key of an assignment
    text = _USERINFO.sub(f"://{HIDDEN}@", text[: 8 * LONGEST])
    text = _ASSIGNED.sub(_hide_value, text)
    text = _BEARER.sub(f"Bearer {HIDDEN}", text)
    return _shorten(_JWT.sub(HIDDEN, text))


def clean(value: Any, depth: int = 0) -> Any:
    """`value` as plain JSON types with every secret hidden; never raises."""
    if depth > DEEPEST:
        return "…"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        return {redact(_text(key)): _under(key, below, depth) for key, below in list(value.items())[:WIDEST]}
    if isinstance(value, list | tuple | set | frozenset):
        return [clean(below, depth + 1) for below in list(value)[:WIDEST]]
    return redact(_text(value))


def _hide_value(found: re.Match[str]) -> str:
    key = found["head"].rstrip(" \t\r\n:=\\\"'").lower()
    return found[0] if key.endswith(HARMLESS) else f"{found['head']}{HIDDEN}"


def _under(key: object, value: Any, depth: int) -> Any:
    return HIDDEN if secret_key(_text(key)) else clean(value, depth + 1)


def _number(value: float) -> int | float | str:
    if isinstance(value, int):
        # Python refuses to print very long integers in decimal, and JSON readers lose them anyway
        return int(value) if abs(value) < 2**63 else _shorten(f"{value:#x}")
    return float(value) if math.isfinite(value) else str(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    except Exception:  # noqa: BLE001 - boundary: somebody's broken __repr__ must not stop the caller
        return f"<{type(value).__name__}>"


def _shorten(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {text[-half:]}"
