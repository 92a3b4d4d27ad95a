"""Who sent this token? Asked of the API server, which alone can tell."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.errors import Retry
from remediator.kube import paths
from remediator.kube.errors import Json, clean
from remediator.kube.read import table, text
from remediator.kube.session import Api

NODE_NAME = "authentication.kubernetes.io/node-name"
POD_UID = "authentication.kubernetes.io/pod-uid"


@dataclass(frozen=True)
class Identity:
    """The API server's verdict. `node` and `pod_uid` are set for tokens bound to a pod; else empty."""

    authenticated: bool
    username: str = ""
    node: str = ""
    pod_uid: str = ""
    problem: str = ""


def review(api: Api, token: str, audience: str, *, deadline: float) -> Identity:
    """TokenReview for our audience. Retry when the API server cannot say."""
    if not token:
        return Identity(authenticated=False, problem="no token was sent")
    body: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }
    answer = api.post(paths.TOKEN_REVIEWS, body, deadline=deadline, harmless=True)
    if answer is None or not isinstance(answer.get("status"), dict):
        raise Retry("create tokenreviews: the answer carries no status")
    return _identity(answer["status"], audience)


def _identity(status: Json, audience: str) -> Identity:
    audiences = status.get("audiences")
    accepted = isinstance(audiences, list) and audience in audiences
    if status.get("authenticated") is not True or not accepted:
        return Identity(authenticated=False, problem=clean(text(status, "error")) or "token not accepted")
    user = table(status, "user")
    extra = table(user, "extra")
    return Identity(
        authenticated=True,
        username=text(user, "username"),
        node=_only(extra, NODE_NAME),
        pod_uid=_only(extra, POD_UID),
    )


def _only(extra: Json, key: str) -> str:
    values = extra.get(key)
    return values[0] if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str) else ""
