"""Checks of Kubernetes: version, rights, clock, the pools' nodes and spares."""

from __future__ import annotations

from remediator.actuators.spares import LabelledSpares
from remediator.errors import Retry
from remediator.kube import access, paths, soperator
from remediator.kube.acceptance import proof_age
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import parse_pod
from remediator.kube.spare import SpareKeys
from remediator.run.doctor.finding import Finding, error, of_clock, ok, warn
from remediator.run.doctor.site import ASK_S, Site
from remediator.run.inventory import CachedInventory
from remediator.settings import Pool

TESTED = (1, 37)
OLDEST = (1, 33)
APPLY = "kubectl apply -f deploy/manifests/rbac.yaml"
NAMED = 6


def kubernetes_version(site: Site) -> Finding:
    """Tested on one version; a few older ones have all that is used."""
    check, found = "Kubernetes version", site.api.get(paths.VERSION, deadline=ASK_S) or {}
    text = f"{found.get('major')}.{found.get('minor')}"
    try:
        version = (int(str(found.get("major"))), int(str(found.get("minor")).rstrip("+")))
    except ValueError:
        raise Retry(f"the API server says its version is {text}") from None
    tested = f"tested on {TESTED[0]}.{TESTED[1]}"
    if version < OLDEST:
        return warn(check, f"{text}; {tested}", f"upgrade to {OLDEST[0]}.{OLDEST[1]} or newer")
    return ok(check, f"{text}; {tested}")


def rights_missing(site: Site) -> Finding:
    """Each verb the manifests grant, asked one by one."""
    wanted = _wanted(site)
    missing = [right for right in wanted if not access.may(site.api, right, deadline=ASK_S)]
    if missing:
        return error("rights", f"may not {_named(missing)}", APPLY)
    return ok("rights", f"all {len(wanted)} that are needed")


def rights_excessive(site: Site) -> Finding:
    """What the account may do and the service never does."""
    check, names = "rights beyond need", site.settings.kubernetes
    found, complete = access.held(site.api, names.lease_namespace, deadline=ASK_S)
    more = access.excess(found, _wanted(site))
    if more:
        return warn(
            check, f"may also {_named(more)}", f"take the roles away that grant it; {APPLY} grants enough"
        )
    if not complete:
        return warn(check, "the API server cannot list them all", "kubectl auth can-i --list as this account")
    return ok(check, "none")


def _wanted(site: Site) -> tuple[access.Right, ...]:
    names, test = site.settings.kubernetes, site.settings.acceptance
    return access.needed(
        names.lease_namespace, names.lease_name, test.namespace if test.image is not None else ""
    )


def kubernetes_clock(site: Site) -> Finding:
    """The API server says whole seconds."""
    theirs = site.api.server_time(deadline=ASK_S)
    return of_clock("clock of Kubernetes", theirs + 0.5 - site.clock.now(), "the API server's machine", 2.0)


def pools(site: Site) -> list[Finding]:
    """Each pool selects nodes; one that selects none protects nobody."""
    items = site.api.list(paths.NODES, deadline=ASK_S).items
    nodes = [node for node in map(parse_node, items) if node is not None]
    theirs = site.api.list(paths.PODS, params={"labelSelector": soperator.WORKER_SELECTOR}, deadline=ASK_S)
    workers = [pod for pod in map(parse_pod, theirs.items) if pod is not None]
    named = {node.name: node for node in nodes}
    inventory = CachedInventory(named.get, lambda: nodes, lambda: workers, site.settings.pools)
    return [_pool(name, pool, nodes, inventory) for name, pool in site.settings.pools.items()]


def spares(site: Site) -> list[Finding]:
    """Each pool that replaces nodes has a spare that can be taken now."""
    driver = LabelledSpares(site.api, site.clock, SpareKeys())
    now = site.clock.now()
    return [_spares(driver, name, pool, now) for name, pool in site.settings.pools.items()]


def acceptance_test(site: Site) -> Finding:
    """What a node has to show before it takes jobs, beyond being Ready with all its GPUs healthy."""
    check, test = "acceptance test", site.settings.acceptance
    if test.image is None:
        return warn(
            check,
            "none: Ready and healthy GPUs are all a node has to show",
            "set acceptance.image and .command",
        )
    return ok(check, f"{test.image} in namespace {test.namespace}, {test.deadline_s} s at most")


def _pool(name: str, pool: Pool, nodes: list[NodeView], inventory: CachedInventory) -> Finding:
    wanted = pool.node_selector.items()
    members = [node for node in nodes if all(node.labels.get(key) == value for key, value in wanted)]
    if not members:
        selector = ",".join(f"{key}={value}" for key, value in wanted)
        return error(
            f"pool {name}", "selects no node", f"kubectl label node NODE {selector.replace(',', ' ')}"
        )
    if pool.stage != "observe" and inventory.is_soperators(members[0]):
        says = f"{len(members)} nodes of Soperator's: only observed, whatever stage {pool.stage} says"
        return warn(f"pool {name}", says, f"set pools.{name}.stage: observe")
    return ok(f"pool {name}", f"{len(members)} nodes at stage {pool.stage}")


def _spares(driver: LabelledSpares, name: str, pool: Pool, now: float) -> Finding:
    check, key = f"spares of {name}", SpareKeys().spare
    if "full" not in str(pool.stage):
        return ok(check, f"none needed at stage {pool.stage}")
    offers = driver.offers(pool.node_selector, {}, deadline=ASK_S)
    if not offers.usable:
        why = "; ".join(offers.refused) or "no node carries the label"
        make = f"kubectl label node NODE {key}=true; kubectl taint node NODE {key}=true:NoSchedule"
        return warn(check, f"none can be taken: {why}", make)
    refused = f"; not usable: {'; '.join(offers.refused)}" if offers.refused else ""
    ready = ", ".join(f"{node.name} ({_validated(node, now)})" for node in offers.usable)
    return ok(check, f"{len(offers.usable)} ready: {ready}{refused}")


def _validated(node: NodeView, now: float) -> str:
    age = proof_age(node, now)
    return "to be tested when it is taken" if age is None else f"tested {age / 3600:.1f} h ago"


def _named(rights: list[access.Right]) -> str:
    more = f" and {len(rights) - NAMED} more" if len(rights) > NAMED else ""
    return ", ".join(map(str, rights[:NAMED])) + more
