"""What this account may do, as the API server sees it, against what it should be able to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from remediator.errors import Retry
from remediator.kube import paths
from remediator.kube.errors import Json
from remediator.kube.read import rows, table, words
from remediator.kube.session import Api

AUTHORIZATION = "authorization.k8s.io"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource; `namespace` and `name` are empty where it holds for all."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}"


CLUSTER_WIDE = (
    *(Right(verb, "nodes") for verb in ("get", "list", "watch", "patch")),
    *(Right(verb, "pods") for verb in ("get", "list", "watch")),
    Right("create", "pods/eviction"),
    Right("create", "tokenreviews", "authentication.k8s.io"),
    Right("get", "nodesets", "slinky.slurm.net"),
)
LEASES = "coordination.k8s.io"
# What the API server grants to everybody by itself.
EVERYBODY = frozenset(
    {
        Right("create", "selfsubjectaccessreviews", AUTHORIZATION),
        Right("create", "selfsubjectrulesreviews", AUTHORIZATION),
        Right("create", "selfsubjectreviews", "authentication.k8s.io"),
        *(Right(verb, "clustertrustbundles", "certificates.k8s.io") for verb in ("get", "list", "watch")),
    }
)


def needed(lease_namespace: str, lease_name: str, test_namespace: str = "") -> tuple[Right, ...]:
    """All rights the service uses, which are those its manifests grant; acceptance tests are pods in
    `test_namespace`, if there are any.
    """
    named = (Right(verb, "leases", LEASES, lease_namespace, lease_name) for verb in ("get", "patch"))
    verbs = ("create", "delete") if test_namespace else ()
    tests = (Right(verb, "pods", "", test_namespace) for verb in verbs)
    return (*CLUSTER_WIDE, Right("create", "leases", LEASES, lease_namespace), *named, *tests)


def may(api: Api, right: Right, *, deadline: float) -> bool:
    """Whether the API server would let us; Retry when it cannot say."""
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    status = _review(api, "SelfSubjectAccessReview", {"resourceAttributes": asked}, deadline)
    return status.get("allowed") is True


def held(api: Api, namespace: str, *, deadline: float) -> tuple[frozenset[Right], bool]:
    """All rights in a namespace, cluster-wide ones without it; and whether the list is complete."""
    status = _review(api, "SelfSubjectRulesReview", {"namespace": namespace}, deadline)
    found = frozenset(right for rule in rows(status, "resourceRules") for right in _rights(rule))
    return found, status.get("incomplete") is not True


def excess(found: frozenset[Right], wanted: tuple[Right, ...]) -> list[Right]:
    """Rights nobody needs. The lists of that review do not say which rights end at their namespace."""
    known = {(right.verb, right.resource, right.group, right.name) for right in (*wanted, *EVERYBODY)}
    return sorted(
        right for right in found if (right.verb, right.resource, right.group, right.name) not in known
    )


def _rights(rule: Json) -> Iterator[Right]:
    names = words(rule, "resourceNames") or ("",)
    for verb, group, resource, name in product(
        words(rule, "verbs"), words(rule, "apiGroups"), words(rule, "resources"), names
    ):
        yield Right(verb, resource, group, name=name)


def _review(api: Api, kind: str, spec: Json, deadline: float) -> Json:
    body: Json = {"apiVersion": f"{AUTHORIZATION}/v1", "kind": kind, "spec": spec}
    answer = api.post(paths.review(kind), body, deadline=deadline, harmless=True)
    if answer is None or not isinstance(answer.get("status"), dict):
        raise Retry(f"create {kind}: the answer carries no status")
    return table(answer, "status")
