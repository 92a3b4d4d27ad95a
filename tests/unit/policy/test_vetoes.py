"""Vetoes are read by value, named, and never expire into an act."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.clock import rfc3339
from remediator.errors import Retry
from remediator.kube.nodes import NodeView
from remediator.kube.pods import MIRROR, Owner, PodView
from remediator.policy.vetoes import (
    NO_REPLACE,
    PROTECTED,
    Protected,
    Veto,
    maintenance,
    unreadable,
    veto,
    vetoes,
)
from slurm_bridge.model import Reservation

NOW = 1_800_000_000.0
LATER, EARLIER = NOW + 3600, NOW - 3600
NODE = NodeView(
    name="gpu-0",
    uid="u",
    resource_version="1",
    provider_id="p",
    boot_id="b",
    labels={},
    annotations={},
    taints=(),
    unschedulable=False,
    ready=True,
)
POD = PodView(
    namespace="team",
    name="train",
    uid="p",
    resource_version="1",
    node="gpu-0",
    labels={},
    annotations={},
    phase="Running",
    owners=(),
    finalizers=(),
    deletion=None,
    hostname="train",
    host_network=False,
    gpus=8,
    claims=0,
)
DATABASE = Protected("the database", {"app": "postgres"}, namespace="db")
labels = st.dictionaries(st.sampled_from([NO_REPLACE, "app", "other"]), st.text(max_size=12))


def basic(at: float) -> str:
    """A time as a label can hold it."""
    return rfc3339(at).split(".")[0].replace("-", "").replace(":", "") + "Z"


def judge(*pods: PodView, node: NodeView = NODE, before: Veto | None = None) -> Veto | None:
    return veto(node, pods, NO_REPLACE, [*PROTECTED, DATABASE], now=NOW, before=before)


def labelled(value: str) -> PodView:
    return replace(POD, labels={NO_REPLACE: value})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("true", "is true"),
        ("false", None),
        ("", "unrecognised value ''"),
        ("TRUE", "unrecognised value 'TRUE'"),
        ("False", "unrecognised value 'False'"),
        ("until", "unrecognised"),
        ("until=tomorrow", "unrecognised"),
        ("until=2026-02-30T00:00:00Z", "unrecognised"),
        ("until=2020-01-01T00:00:00", "unrecognised"),
        ("until=2020-01-01", "unrecognised"),
        (f"until={rfc3339(LATER)}", "holds until"),
        (f"until={rfc3339(EARLIER)}", None),
        (f"until-{basic(LATER)}", "holds until"),
        (f"until-{basic(EARLIER)}", None),
        ("until=2027-01-15T09:30:00+02:00", None),
        ("until=2027-01-15T09:30:00-02:00", "holds until"),
    ],
)
def test_a_label_vetoes_by_its_value(value: str, says: str | None) -> None:
    for pod, node, target in (
        (labelled(value), NODE, "pod team/train"),
        (replace(POD, annotations={NO_REPLACE: value}), NODE, "pod team/train"),
        (POD, replace(NODE, labels={NO_REPLACE: value}), "node gpu-0"),
        (POD, replace(NODE, annotations={NO_REPLACE: value}), "node gpu-0"),
    ):
        found = judge(pod, node=node)
        if says is None:
            assert found is None
        else:
            assert found is not None
            assert (found.kind, found.target, found.since) == ("label", target, NOW)
            assert says in found.reason


def test_without_a_label_nothing_vetoes() -> None:
    assert judge(POD) is None
    assert judge() is None


@pytest.mark.parametrize(
    "pod",
    [
        replace(labelled("true"), phase="Succeeded"),
        replace(labelled("true"), phase="Failed"),
        replace(labelled("true"), annotations={MIRROR: "x"}),
        replace(labelled("true"), owners=(Owner("DaemonSet", "agent", "u"),)),
    ],
    ids=["succeeded", "failed", "mirror", "daemonset"],
)
def test_pods_that_use_nothing_or_come_back_by_themselves_never_count(pod: PodView) -> None:
    assert judge(pod) is None
    assert judge(replace(pod, labels={"app.kubernetes.io/name": "slurmctld"})) is None


def test_a_leaving_pod_still_vetoes() -> None:
    assert judge(replace(labelled("true"), deletion=EARLIER)) is not None


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (replace(POD, labels={"app.kubernetes.io/name": "remediator"}), "controller"),
        (replace(POD, labels={"app.kubernetes.io/name": "slurmctld"}), "slurmctld"),
        (replace(POD, labels={"app.kubernetes.io/name": "slurmrestd"}), "slurmrestd"),
        (replace(POD, labels={"app.kubernetes.io/name": "remediator-agent"}), None),
        (replace(POD, labels={"app.kubernetes.io/name": "slurmd"}), None),
        (replace(POD, labels={"app": "postgres"}, namespace="db"), "the database"),
        (replace(POD, labels={"app": "postgres"}), None),
    ],
)
def test_protected_workloads_hold_their_node(pod: PodView, says: str | None) -> None:
    found = judge(pod)
    assert (found is None) == (says is None)
    assert found is None or (found.kind == "protected" and says is not None and says in found.reason)


def test_a_selector_of_nothing_protects_nothing() -> None:
    assert not Protected("all", {}).matches(POD)
    assert Protected("a namespace", {}, namespace="team").matches(POD)


def test_a_veto_keeps_its_age_while_it_stands_and_is_named_before_others() -> None:
    first = Veto("label", "pod team/train", "label says true", EARLIER)
    other = replace(labelled("true"), name="alpha")
    found = judge(other, labelled("TRUE"), before=first)
    assert found is not None
    assert (found.target, found.since) == ("pod team/train", EARLIER)
    assert "TRUE" in found.reason
    lifted = judge(other, labelled("false"), before=first)
    assert lifted is not None
    assert (lifted.target, lifted.since) == ("pod team/alpha", NOW)


def test_what_cannot_be_read_is_a_veto_that_ages() -> None:
    first = unreadable("gpu-0", Retry("HTTP 500"), now=EARLIER)
    again = unreadable("gpu-0", Retry("timeout"), now=NOW, before=first)
    assert (again.kind, again.since) == ("unreadable", EARLIER)
    assert str(again) == "node gpu-0: its vetoes cannot be read: timeout"


@given(values=st.lists(st.tuples(labels, labels), max_size=5), shuffle=st.randoms())
def test_the_answer_does_not_depend_on_the_order_of_pods(
    values: list[tuple[dict[str, str], dict[str, str]]], shuffle: object
) -> None:
    pods = [
        replace(POD, name=f"p{number}", labels=labels, annotations=annotations)
        for number, (labels, annotations) in enumerate(values)
    ]
    forward = vetoes(NODE, pods, NO_REPLACE, PROTECTED, now=NOW)
    assert forward == vetoes(NODE, pods[::-1], NO_REPLACE, PROTECTED, now=NOW)


@given(value=st.text(max_size=40), now=st.floats(0, 4e9))
def test_only_false_and_a_past_end_let_go(value: str, now: float) -> None:
    found = veto(NODE, [labelled(value)], NO_REPLACE, (), now=now)
    assert found is not None or value == "false" or value.startswith("until")


@given(end=st.integers(0, 4_000_000_000), now=st.integers(0, 4_000_000_000))
def test_an_until_holds_exactly_as_long_as_it_says(end: int, now: int) -> None:
    for value in (f"until={rfc3339(end)}", f"until-{basic(end)}"):
        assert (veto(NODE, [labelled(value)], NO_REPLACE, (), now=now) is not None) == (now < end)


@given(present=labels, added=st.sampled_from(["true", "", "yes", "TRUE"]))
def test_a_vetoing_pod_more_never_lifts_a_veto(present: dict[str, str], added: str) -> None:
    pods = [replace(POD, labels=present)]
    more = [*pods, replace(labelled(added), name="more")]
    assert set(vetoes(NODE, pods, NO_REPLACE, PROTECTED, now=NOW)) <= set(
        vetoes(NODE, more, NO_REPLACE, PROTECTED, now=NOW)
    )
    assert judge(*more) is not None


def planned(start: float | None, end: float | None, *, nodes: tuple[str, ...] = ("w-0",)) -> Reservation:
    return Reservation("fans", nodes, flags=frozenset({"MAINT", "SPEC_NODES"}), start=start, end=end)


SOON = 3600.0
PLANS: dict[str, tuple[Reservation, bool]] = {
    "under way": (planned(EARLIER, LATER), True),
    "about to begin": (planned(NOW + SOON, NOW + 2 * SOON), True),
    "tomorrow": (planned(NOW + SOON + 1, NOW + 2 * SOON), False),
    "over": (planned(EARLIER, NOW), False),
    "without a readable begin": (planned(None, LATER), True),
    "without a readable end": (planned(EARLIER, None), True),
    "of another node": (planned(EARLIER, LATER, nodes=("w-1",)), False),
    "somebody's place, no maintenance": (replace(planned(EARLIER, LATER), flags=frozenset({"FLEX"})), False),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_maintenance_reservation_vetoes_now_and_shortly_before_it_begins(case: str) -> None:
    reservation, vetoed = PLANS[case]
    found = maintenance([reservation], ["w-0", "w-9"], SOON, now=NOW)
    assert (found is not None) == vetoed
    if found is not None:
        assert (found.kind, found.target) == ("maintenance", "node w-0")
        assert "fans" in found.reason
