"""Keeps every Token resource's Secret filled with a token that is younger than 80 % of its lifetime."""

from __future__ import annotations

import base64
import logging

from . import status, tokens
from .kube import CUSTOM, Kube, KubeError
from .model import Json

log = logging.getLogger("slinky")
RETRY = 30.0


def read_key(kube: Kube, namespace: str, name: str, key: str) -> bytes:
    """The raw bytes of one key of a Secret."""
    found = kube.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    if found is None or key not in (found.get("data") or {}):
        raise KubeError(404, f"Secret {namespace}/{name} has no key {key}")
    return base64.b64decode(found["data"][key])


def renew_all(kube: Kube, now: float) -> float:
    """Issues or renews what is due; answers when to look again."""
    due = [_renew_or_retry(kube, token, now) for token in kube.items(f"{CUSTOM}/tokens")]
    return min(due, default=float("inf"))


def _renew_or_retry(kube: Kube, token: Json, now: float) -> float:
    try:
        return _renew(kube, token, now)
    except (KubeError, ValueError) as error:
        log.warning("token %s: %s", token["metadata"]["name"], error)
        return now + RETRY


def _renew(kube: Kube, token: Json, now: float) -> float:
    meta, spec = token["metadata"], token["spec"]
    namespace, lifetime = meta["namespace"], tokens.seconds(spec.get("lifetime"))
    key = read_key(kube, namespace, spec["jwtKeyRef"]["name"], spec["jwtKeyRef"]["key"])
    name, slot = tokens.secret_name(token)
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    held = kube.get(f"{secrets}/{name}")
    if held is not None:
        jwt = base64.b64decode((held.get("data") or {}).get(slot, "")).decode()
        if not spec.get("refresh", True):
            return float("inf")
        due = tokens.renew_at(tokens.claims_of(jwt, key), lifetime)
        if now < due:
            return due
    fresh = tokens.secret(token, tokens.issue(key, spec["username"], lifetime, now))
    if held is None:
        kube.create(secrets, fresh)
    else:
        kube.patch(f"{secrets}/{name}", {"data": fresh["data"]})
    issued = {"status": {"issuedAt": status.stamp(now)}}
    kube.patch(f"{CUSTOM}/namespaces/{namespace}/tokens/{meta['name']}/status", issued)
    log.info("token %s: issued for %s, %.0f s", meta["name"], spec["username"], lifetime)
    return now + lifetime * 4 / 5
