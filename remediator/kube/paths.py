"""API paths from names: every segment is checked and quoted, so no name can change the resource."""

from __future__ import annotations

import re
from urllib.parse import quote

from remediator.errors import BadInput

VERSION = "/version"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 a path, not a password
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def review(kind: str) -> str:
    """Path of a review about ourselves, such as SelfSubjectAccessReview."""
    return f"/apis/authorization.k8s.io/v1/{kind.lower()}s"


def name(value: str, field: str) -> str:
    """`value` quoted for a path, or BadInput when it is no Kubernetes name."""
    if not _SUBDOMAIN.fullmatch(value):
        raise BadInput(field, f"{value[:80]!r} is no Kubernetes name (lower-case letters, digits, '-', '.')")
    return quote(value, safe="")


def node(node_name: str) -> str:
    """Path of one node."""
    return f"{NODES}/{name(node_name, 'node')}"


def pods(namespace: str) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{name(namespace, 'namespace')}/pods"


def pod(namespace: str, pod_name: str) -> str:
    """Path of one pod."""
    return f"{pods(namespace)}/{name(pod_name, 'pod')}"


def eviction(namespace: str, pod_name: str) -> str:
    """Path of one pod's eviction."""
    return f"{pod(namespace, pod_name)}/eviction"


def nodeset(namespace: str, nodeset_name: str) -> str:
    """Path of one of Slinky's NodeSets."""
    base = f"/apis/slinky.slurm.net/v1beta1/namespaces/{name(namespace, 'namespace')}/nodesets"
    return f"{base}/{name(nodeset_name, 'nodeset')}"


def leases(namespace: str) -> str:
    """Path of a namespace's leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{name(namespace, 'namespace')}/leases"


def lease(namespace: str, lease_name: str) -> str:
    """Path of one lease."""
    return f"{leases(namespace)}/{name(lease_name, 'lease')}"
