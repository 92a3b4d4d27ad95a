"""States and flags: nothing raises, unknown words are kept, a drain is never hidden."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_bridge.model import SlurmJob, SlurmNode
from slurm_bridge.states import NODE_BASES, job_state, node_state

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
words = st.lists(st.sampled_from([*sorted(NODE_BASES), "COMPLETING", "NOT_RESPONDING", "NEW_IN_27.11"]))


@pytest.mark.parametrize(
    ("raw", "base", "flags"),
    [
        (["IDLE", "DYNAMIC_NORM"], "IDLE", {"DYNAMIC_NORM"}),
        (["MIXED", "DRAIN", "CLOUD"], "MIXED", {"DRAIN", "CLOUD"}),
        (["DOWN", "DRAIN", "NOT_RESPONDING"], "DOWN", {"DRAIN", "NOT_RESPONDING"}),
        ("IDLE+DRAIN+DYNAMIC_NORM", "IDLE", {"DRAIN", "DYNAMIC_NORM"}),
        ("idle*", "IDLE", {"NOT_RESPONDING"}),
        ("DRAINED*", "IDLE", {"DRAIN", "NOT_RESPONDING"}),
        ("DRAINING", "ALLOCATED", {"DRAIN"}),
        ("MIXED-", "MIXED", {"PLANNED"}),
        ("IDLE~", "IDLE", {"POWERED_DOWN"}),
        ("ALLOCATED*#", "ALLOCATED", {"NOT_RESPONDING", "POWERING_UP"}),
        ("IDLE%", "IDLE", {"POWERING_DOWN"}),
        ("MIXED!", "MIXED", {"POWER_DOWN"}),
        ("DRAINED@", "IDLE", {"DRAIN", "REBOOT_REQUESTED"}),
        ("DRAINING^", "ALLOCATED", {"DRAIN", "REBOOT_ISSUED"}),
        (["DRAIN"], "UNKNOWN", {"DRAIN"}),
        (["IDLE", "ALLOCATED"], "UNKNOWN", set()),
        (["IDLE", "GPU_ON_FIRE"], "IDLE", {"GPU_ON_FIRE"}),
        ([], "UNKNOWN", set()),
        (None, "UNKNOWN", set()),
        (17, "UNKNOWN", set()),
    ],
)
def test_node_states_are_taken_apart(raw: object, base: str, flags: set[str]) -> None:
    assert node_state(raw) == (base, frozenset(flags))


@pytest.mark.parametrize(
    ("raw", "base", "flags"),
    [
        (["RUNNING"], "RUNNING", set()),
        (["PENDING", "COMPLETING"], "PENDING", {"COMPLETING"}),
        (["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT"], "PENDING", {"REQUEUE_HOLD", "SPECIAL_EXIT"}),
        (["COMPLETING"], "UNKNOWN", {"COMPLETING"}),
        ("NODE_FAIL", "NODE_FAIL", set()),
    ],
)
def test_job_states_are_taken_apart(raw: object, base: str, flags: set[str]) -> None:
    assert job_state(raw) == (base, frozenset(flags))


@given(anything)
def test_no_input_raises(raw: object) -> None:
    assert node_state(raw)[0] in NODE_BASES
    assert isinstance(job_state(raw)[1], frozenset)


@given(words, st.integers(0, 10), st.booleans())
def test_a_drain_is_never_hidden(others: list[str], at: int, joined: bool) -> None:
    listed = [*others[:at], "DRAIN", *others[at:]]
    raw: object = "+".join(listed) if joined else listed
    _, flags = node_state(raw)
    assert SlurmNode("n", "IDLE", flags).is_drain


@pytest.mark.parametrize(
    ("state", "flags", "busy"),
    [
        ("IDLE", set(), False),
        ("DOWN", {"DRAIN"}, False),
        ("ALLOCATED", set(), True),
        ("MIXED", {"DRAIN"}, True),
        ("IDLE", {"COMPLETING"}, True),
        ("UNKNOWN", set(), True),
        ("ERROR", set(), True),
    ],
)
def test_an_unknown_node_counts_as_busy(state: str, flags: set[str], busy: bool) -> None:
    assert SlurmNode("n", state, frozenset(flags)).is_busy is busy


@pytest.mark.parametrize(
    ("raw", "powering", "silent"),
    [
        (["IDLE", "CLOUD", "POWERED_DOWN"], True, False),
        (["ALLOCATED", "CLOUD", "NOT_RESPONDING", "POWERING_UP"], True, False),
        (["IDLE", "CLOUD", "NOT_RESPONDING", "POWERING_DOWN"], True, False),
        (["MIXED", "CLOUD", "POWER_DOWN", "POWER_DRAIN"], False, False),
        (["MIXED", "CLOUD", "POWER_DOWN", "NOT_RESPONDING"], False, True),
        (["IDLE", "CLOUD"], False, False),
        (["DOWN", "CLOUD", "NOT_RESPONDING"], False, True),
    ],
)
def test_a_cloud_node_without_power_is_not_silent(raw: list[str], powering: bool, silent: bool) -> None:
    """One that is only to be switched off once it is idle still has a slurmd that ought to answer."""
    node = SlurmNode("n", *node_state(raw))
    assert (node.is_powering, node.is_silent) == (powering, silent)


@pytest.mark.parametrize(
    ("state", "flags", "holds", "over"),
    [
        ("RUNNING", set(), True, False),
        ("PENDING", set(), False, False),
        ("PENDING", {"COMPLETING"}, True, False),
        ("COMPLETED", {"COMPLETING"}, True, False),
        ("COMPLETED", set(), False, True),
        ("UNKNOWN", set(), True, False),
        ("SUSPENDED", set(), True, False),
    ],
)
def test_when_a_job_holds_its_nodes(state: str, flags: set[str], holds: bool, over: bool) -> None:
    job = SlurmJob(1, state, frozenset(flags))
    assert (job.holds_nodes, job.is_over) == (holds, over)


@pytest.mark.parametrize(
    ("array", "task", "address"), [(None, None, "8"), (3, 1, "3_1"), (3, 0, "3_0"), (3, None, "8")]
)
def test_a_jobs_address(array: int | None, task: int | None, address: str) -> None:
    assert SlurmJob(8, "RUNNING", array_job_id=array, array_task_id=task).address == address
