"""Hostlists and literal names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.errors import BadInput
from slurm_bridge import names
from slurm_bridge.hostlist import MAX_HOSTS, expand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("gpu-0", ("gpu-0",)),
        ("gpu-[0-3,7]", ("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-7")),
        ("gpu-[08-11]", ("gpu-08", "gpu-09", "gpu-10", "gpu-11")),
        ("a,b,a", ("a", "b")),
        ("r[1-2]n[01-02],login.x", ("r1n01", "r1n02", "r2n01", "r2n02", "login.x")),
        ("gpu[1-2]-ib0", ("gpu1-ib0", "gpu2-ib0")),
    ],
)
def test_expansion(text: str, expected: tuple[str, ...]) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "gpu-[0-",
        "gpu-]0[",
        "gpu-[]",
        "gpu-[a-b]",
        "gpu-[3-1]",
        "a,,b",
        ",",
        "a b",
        "a;b",
        "(null)",
        "x[1-2-3]",
    ],
)
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="hostlist"):
        expand(text)


@pytest.mark.parametrize("text", ["x[0-99999999]", "x[0-999]y[0-999]", "a[0-65535],b"])
def test_the_size_is_bounded(text: str) -> None:
    with pytest.raises(BadInput, match=str(MAX_HOSTS)):
        expand(text)


@given(st.text(max_size=60))
def test_any_text_gives_names_or_bad_input(text: str) -> None:
    try:
        found = expand(text)
    except BadInput:
        return
    assert len(found) == len(set(found)) <= MAX_HOSTS
    assert all(name and not set(name) & set("[],") for name in found)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=30, unique=True), st.integers(0, 4))
def test_a_compressed_list_gives_back_the_same_names(numbers: list[int], width: int) -> None:
    wanted = tuple(f"gpu-{n:0{width}d}" for n in numbers)
    assert expand("gpu-[" + ",".join(f"{n:0{width}d}" for n in numbers) + "]") == wanted


@given(st.integers(0, 9000), st.integers(0, 500), st.integers(1, 6))
def test_a_range_counts_up_with_its_padding(low: int, more: int, width: int) -> None:
    first = str(low).zfill(width)
    found = expand(f"n[{first}-{low + more}]")
    assert found == tuple(f"n{str(n).zfill(len(first))}" for n in range(low, low + more + 1))


@given(st.text(max_size=20))
def test_a_name_that_passes_is_literal(text: str) -> None:
    try:
        name = names.node_name(text)
    except BadInput:
        return
    assert expand(name) == (name,)
    assert name.isascii()


@pytest.mark.parametrize(
    "name", ["ALL", "all", "DEFAULT", "a,b", "a[1-2]", "-a", "a/b", "a%2e", " a", "a" * 254]
)
def test_names_that_could_mean_more_than_one_node_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        names.node_name(name)


@pytest.mark.parametrize("address", ["12", "12_0", "12_345"])
def test_job_addresses(address: str) -> None:
    assert names.job_address(address) == address


@pytest.mark.parametrize(
    "address", ["", "0", "-1", "12_", "12_[1-3]", "12+1", "12,13", "12.batch", "ALL", "1/2"]
)
def test_other_job_addresses_are_refused(address: str) -> None:
    with pytest.raises(BadInput):
        names.job_address(address)
