"""Slurm's JSON Web Tokens: HS256 over the raw bytes of jwt.key, and when they are due for renewal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from .model import API_VERSION, Json

ISSUER = "slurm-operator"
DEFAULT_LIFETIME = 900.0
SECRET_SLOT = "SLURM_JWT"  # noqa: S105 - the name of a key in a Secret
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def issue(key: bytes, username: str, lifetime: float, now: float) -> str:
    """A signed token for `username` that lives `lifetime` seconds."""
    claims = {
        "jti": str(uuid.uuid4()),
        "iss": ISSUER,
        "iat": int(now),
        "nbf": int(now),
        "exp": int(now + lifetime),
        "sun": username,
    }
    head = _encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = f"{head}.{_encode(json.dumps(claims).encode())}"
    return f"{body}.{_sign(key, body)}"


def claims_of(token: str, key: bytes) -> Mapping[str, Any]:
    """The claims of a token signed with `key`; empty when it is not, or is no token."""
    body, _, signature = token.rpartition(".")
    if not hmac.compare_digest(_sign(key, body).encode(), signature.encode()):
        return {}
    try:
        payload = json.loads(_decode(body.partition(".")[2]))
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


def renew_at(claims: Mapping[str, Any], lifetime: float) -> float:
    """The epoch second at which 80 % of the lifetime is over; 0 for a token without an expiry."""
    return float(claims["exp"]) - lifetime / 5 if "exp" in claims else 0.0


def seconds(duration: str | None) -> float:
    """Reads a Go duration such as `1h`, `15m0s` or `1.5h`; the default lifetime without one."""
    if duration is None:
        return DEFAULT_LIFETIME
    parts = re.findall(r"([0-9.]+)(ms|h|m|s)", duration)
    if not parts or "".join(n + u for n, u in parts) != duration:
        raise ValueError(f"not a duration: {duration!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def secret_name(token: Json) -> tuple[str, str]:
    """Name and key of the Secret that a Token resource asks for."""
    ref = token["spec"].get("secretRef") or {}
    default = f"{token['metadata']['name']}-jwt-{token['spec']['username']}"
    return ref.get("name", default), ref.get("key", SECRET_SLOT)


def secret(token: Json, jwt: str) -> Json:
    """The Secret manifest that carries `jwt` for a Token resource."""
    meta = token["metadata"]
    name, key = secret_name(token)
    owner = {"apiVersion": API_VERSION, "kind": "Token", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": meta.get("labels") or {},
            "ownerReferences": [owner],
        },
        "immutable": not token["spec"].get("refresh", True),
        "data": {key: base64.b64encode(jwt.encode()).decode()},
    }


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _sign(key: bytes, body: str) -> str:
    return _encode(hmac.new(key, body.encode(), hashlib.sha256).digest())
