"""Whatever rules load and whatever comes in: nothing raises, and what cannot be told never acts."""

from __future__ import annotations

import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from remediator.errors import BadInput
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.decide import Situation, decide
from remediator.policy.rules import Rules, load

FREE = Situation(last_closed=None)
FACTS = {"n": "int", "x": "double", "b": "bool", "s": "string", "l": "list", "m": "map"}
SAMPLES: list[dict[str, Any]] = [
    {"n": 3, "x": 1.5, "b": True, "s": "a", "l": ["a"], "m": {"a": "b"}},
    {"n": 0, "x": 0.0, "b": False, "s": "", "l": [], "m": {}},
    {"code": 79, "n": 1, "b": True},
]
# Each can go wrong at run time: nothing there, a division by zero, a key or an index that is not there.
ATOMS = (
    "n > 2", "x < 1.0", "b", "s == 'a'", "s.matches('^a+$')", "'a' in l", "l[0] == 'a'", "m['a'] == 'b'",
    "10 / n > 3", "size(s) < 3", "'n' in known", "code == 79", "pool == 'gpu'", "l.exists(e, e == s)",
    "n * n > 4",
)  # fmt: skip
conditions = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["&&", "||"]), inner)
        | st.builds("!({})".format, inner)
    ),
    max_leaves=4,
)
texts = st.text(max_size=6) | st.just("\ud800")
odd: Any = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = odd | st.lists(odd, max_size=2) | st.dictionaries(texts, odd, max_size=2)
NAMES = list(string.ascii_lowercase[:4])
rules = st.fixed_dictionaries(
    {
        "kinds": st.sampled_from([["xid"], ["xid", "fallen_off_bus"]]),
        "codes": st.lists(st.sampled_from([79, 31, 154, 163]), min_size=1, max_size=2, unique=True),
        "tier": st.sampled_from(["T0", "T1", "T2"]),
        "plan": st.sampled_from(["record", "restart-job", "validate", "replace"]),
        "timing": st.sampled_from(["now", "at-job-end"]),
        "over": st.lists(st.sampled_from(NAMES), max_size=2),
        "cause": st.just("a cause"),
        "why": st.just("a reason"),
        "source": st.just("a source"),
    },
    optional={"when": conditions},
)
policies = st.dictionaries(st.sampled_from(NAMES), rules, min_size=1, max_size=4)
signals = st.builds(
    Signal,
    source=st.just("agent"),
    node=st.just("gpu-0"),
    boot_id=st.just("b"),
    kind=st.sampled_from(["xid", "fallen_off_bus", "sxid", "alert", "else"]),
    code=st.sampled_from([79, 31, 154, 163, 9999, -1, None]),
    pci=st.none() | texts,
    seen_at=st.just(0.0),
    received_at=st.just(0.0),
    dedupe=st.just("d"),
    detail=st.dictionaries(
        st.sampled_from([*FACTS, "extra"]), values | st.dictionaries(st.sampled_from(list(FACTS)), values)
    ),
)
machines = st.builds(
    Machine,
    name=st.just("gpu-0"),
    uid=st.just("u"),
    boot_id=st.just("b"),
    pool=st.just("gpu"),
    stage=st.just("full"),
)


def loaded(policy: dict[str, Any]) -> Rules | None:
    """The policy, when it loads: names in `over` of rules that are not there, for one, are refused."""
    kinds = {
        "xid": {"facts": FACTS, "samples": SAMPLES},
        "fallen_off_bus": {"facts": FACTS, "samples": SAMPLES},
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"
        path.write_text(yaml.safe_dump({"version": 1, "kinds": kinds, "rules": policy}))
        try:
            return load(path)
        except BadInput:
            return None


@given(policy=policies, some=st.lists(signals, min_size=1, max_size=5), machine=machines)
def test_no_policy_that_loads_ever_raises_and_unknown_never_acts(
    policy: dict[str, Any], some: list[Signal], machine: Machine
) -> None:
    found = loaded(policy)
    if found is None:
        return
    for signal in some:
        decision = decide(signal, machine, found, FREE)
        speaks = [
            rule for rule in policy.values() if signal.kind in rule["kinds"] and signal.code in rule["codes"]
        ]
        assert decision.reason == "rule" or decision.action == "record"
        if decision.action == "act":
            assert policy[decision.rule] in speaks
        if not speaks:
            assert decision.action == "record"


@given(signal=signals, machine=machines, code=st.integers(177, 2**40) | st.integers(max_value=0))
def test_a_code_that_no_catalogue_knows_never_acts_and_is_told(
    signal: Signal, machine: Machine, code: int
) -> None:
    unknown = signal.model_copy(update={"kind": "xid", "code": code})
    decision = decide(unknown, machine, load(), FREE)
    assert (decision.action, decision.reason, decision.tell) == ("record", "unknown-code", True)
