"""Settings files, right and wrong."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from remediator.settings import Leadership, Settings, SettingsError, Share, Stages, example, load, overrides
from remediator.settings.problems import section_at
from remediator.settings.text import MOST_BYTES

GOOD = """\
cluster: {name: lab}
slurm:
  url: http://slurm-restapi.slurm:6820
pools:
  gpu:
    node_selector: {nvidia.com/gpu.present: "true"}
"""

# what stands in the file, what the message must contain
BROKEN: dict[str, tuple[str | bytes, list[str]]] = {
    "a key with a typo": (GOOD + "slrm: {}\n", ["s.yaml:7: slrm: no such setting", "did you mean `slurm`?"]),
    "a typo inside a section": (
        GOOD.replace("slurm:\n", "slurm:\n  tokn_path: /t\n"),
        ["s.yaml:3: slurm.tokn_path: no such setting", "did you mean `token_path`?"],
    ),
    "an unlike key": (GOOD + "log: {zzz: 1}\n", ["s.yaml:7: log.zzz: no such setting", "known here: level"]),
    "text for a number": (
        GOOD + "http:\n  port: lots\n",
        ["s.yaml:8: http.port: should be a valid integer", "found text", "TCP port to listen on"],
    ),
    "a list for text": (GOOD.replace("name: lab", "name: [a]"), ["s.yaml:1: cluster.name", "found a list"]),
    "a label that YAML reads as a truth value": (
        GOOD.replace('"true"', "true"),
        ["s.yaml:6: pools.gpu.node_selector.nvidia.com/gpu.present", 'put it in quotes: "true"'],
    ),
    "a number out of range": (
        GOOD.replace("slurm:\n", "slurm:\n  poll_busy_s: 500\n"),
        ["s.yaml:3: slurm.poll_busy_s: should be less than or equal to 60, found 500"],
    ),
    "a number that is not one": (GOOD + "leadership: {lease_s: .nan}\n", ["leadership.lease_s", "finite"]),
    "a missing field": (
        GOOD.replace("  url: http://slurm-restapi.slurm:6820\n", "  user: slurm\n"),
        ["slurm.url: is required; add it: Address of slurmrestd"],
    ),
    "a backend without its worker": (
        GOOD.replace("slurm:\n", "slurm:\n  backend: pyslurm\n"),
        ["slurm: backend pyslurm needs a worker"],
    ),
    "an unknown backend": (
        GOOD.replace("slurm:\n", "slurm:\n  backend: scontrol\n"),
        ["s.yaml:3: slurm.backend: should be 'auto', 'rest' or 'pyslurm', found 'scontrol'"],
    ),
    "a missing section": (GOOD.replace("cluster: {name: lab}\n", ""), ["s.yaml: cluster: is required"]),
    "no pool": (GOOD[: GOOD.index("pools")] + "pools: {}\n", ["s.yaml:4: pools: must not be empty"]),
    "a pool that would take every node": (
        GOOD.replace('{nvidia.com/gpu.present: "true"}', "{}"),
        ["pools.gpu.node_selector: must not be empty"],
    ),
    "an unknown stage": (
        GOOD + "    stage: ful\n",
        ["s.yaml:7: pools.gpu.stage: should be 'observe', 'drain-only', 'move-jobs' or 'full', found 'ful'"],
    ),
    "an unknown stage of a tier": (
        GOOD + "    stage: {T0: full, T1: ful}\n",
        ["s.yaml:7: pools.gpu.stage: should be 'observe'", "or 'full' for T1, found"],
    ),
    "an unknown tier": (
        GOOD + "    stage: {T9: full}\n",
        ["s.yaml:7: pools.gpu.stage: T9 is no tier; the tiers are T0, T1, T2, T3; it means: observe"],
    ),
    "a stage that is a list": (GOOD + "    stage: [full]\n", ["pools.gpu.stage: should be 'observe'"]),
    "a pool name that is no name": (
        GOOD.replace("  gpu:", "  G pu:"),
        ["s.yaml:5: pools.G pu: must have the form"],
    ),
    "a section that is not one": (
        GOOD + "budgets: off\n",
        ["s.yaml:7: budgets: should be a section of settings, found true or false"],
    ),
    "another database": (
        GOOD + "store: {url: postgresql://db/x}\n",
        ["store.url: must be a SQLite URL; write sqlite:///"],
    ),
    "a database in memory": (GOOD + "store: {url: 'sqlite:///:memory:'}\n", ["store.url: must be a file"]),
    "a URL without a scheme": (
        GOOD.replace("http://", ""),
        ["slurm.url: must be an http:// or https:// URL"],
    ),
    "a URL with a path": (
        GOOD.replace(":6820", ":6820/slurm/v0.0.44"),
        ["slurm.url: must end after host and port"],
    ),
    "a URL with a bad port": (GOOD.replace(":6820", ":99999"), ["slurm.url", "ort out of range"]),
    "a relative path": (
        GOOD + "kubernetes: {kubeconfig: conf}\n",
        ["kubernetes.kubeconfig: must be an absolute path"],
    ),
    "a lease too short for one call": (
        GOOD + "leadership: {lease_s: 9, renew_s: 2}\n",
        ["s.yaml:7: leadership: lease_s must be more than renew_s + 7 s"],
    ),
    "a key that stands twice": (
        GOOD + "cluster: {name: b}\n",
        ["s.yaml:7: settings: not valid YAML", "stands twice"],
    ),
    "a key that is not text": (GOOD + "1: x\n", ["s.yaml:7: settings: not valid YAML", "a key must be text"]),
    "an open bracket": (GOOD + "log: {level: info\n", ["s.yaml:8: settings: not valid YAML"]),
    "a tab": (GOOD + "log:\n\tlevel: info\n", ["s.yaml:8: settings: not valid YAML"]),
    "a Python object": (GOOD + "log: !!python/name:os.system\n", ["s.yaml:7: settings: not valid YAML"]),
    "an impossible date": (GOOD + "log: {level: 2026-99-99}\n", ["settings: not valid YAML"]),
    "an alias of itself": (GOOD + "log: &a [*a]\n", ["settings: not valid YAML", "nested too deeply"]),
    "aliases that make millions": (
        GOOD
        + "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]\n" for last, name in pairwise("abcdefghi")
        ),
        ["settings: not valid YAML", "too many entries"],
    ),
    "more than a settings file can be": ("#" * (MOST_BYTES + 1), ["settings: is longer than"]),
    "two documents": (GOOD + "---\n" + GOOD, ["s.yaml:7: settings: not valid YAML"]),
    "no text at all": (b"\xff\xfe\x00\xd8", ["settings: not valid YAML"]),
    "an empty file": ("", ["cluster: is required", "slurm: is required", "pools: is required"]),
    "a list of settings": ("- a\n", ["settings: must be a mapping of sections"]),
}


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "s.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_broken_file_names_place_path_problem_and_next_step(case: str, tmp_path: Path) -> None:
    content, wanted = BROKEN[case]
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, content), {})
    text = str(caught.value)
    for part in wanted:
        assert part in text
    assert all("; " in line for line in text.splitlines())


def test_good_file_gives_defaults_for_all_that_is_left_out(tmp_path: Path) -> None:
    settings = load(write(tmp_path, GOOD), {})
    assert settings.slurm.poll_busy_s == 2
    assert settings.pools["gpu"].stage == Stages(T0="full", T1="observe", T2="full", T3="full")
    assert (settings.leadership.lease_s, settings.leadership.renew_s) == (10, 2)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    content = GOOD + "log: {level: loud}\nhttp: {port: -1, hots: x}\n"
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, content), {})
    assert sorted(one.path for one in caught.value.problems) == ["http.hots", "http.port", "log.level"]


@pytest.mark.parametrize("path", ["missing.yaml", ".", "/proc/self/mem"])
def test_unreadable_path_is_told_without_traceback(path: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings: cannot be read \(.*\); give the path"):
        load(tmp_path / path, {})


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace("slurm:\n", "slurm:\n  token: SECRETVALUE\n"),
        GOOD.replace("slurm:\n", "slurm:\n  token_path: SECRETVALUE\n"),
        GOOD.replace("http://", "http://user:SECRETVALUE@"),
        GOOD + "store: {url: 'postgresql://u:SECRETVALUE@h/db'}\n",
        GOOD + "http: {port: SECRETVALUE}\n",
        GOOD + "SECRETVALUE\n",
    ],
)
def test_value_in_the_wrong_place_is_never_repeated(content: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, content), {})
    assert "SECRETVALUE" not in str(caught.value)


def test_environment_overrides_the_file_at_any_depth(tmp_path: Path) -> None:
    environ = {
        "REMEDIATOR_HTTP__PORT": "9000",
        "REMEDIATOR_POOLS__GPU__STAGE": "observe",
        "REMEDIATOR_POOLS__GPU__NODE_SELECTOR": '{a/b: "c"}',
        "REMEDIATOR_BUDGETS__ENABLED": "false",
    }
    settings = load(write(tmp_path, GOOD), environ)
    assert settings.http.port == 9000
    assert settings.pools["gpu"].stage == "observe"
    assert settings.pools["gpu"].node_selector == {"a/b": "c"}
    assert not settings.budgets.enabled


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        (
            "REMEDIATOR_HTTP__PORT",
            "x",
            "environment REMEDIATOR_HTTP__PORT: http.port: should be a valid integer",
        ),
        (
            "REMEDIATOR_SLRUM__URL",
            "x",
            "environment REMEDIATOR_SLRUM__URL: slrum: no such setting; did you mean",
        ),
        (
            "REMEDIATOR_POOLS__GPU__NODE_SELECTOR",
            "{a",
            "environment REMEDIATOR_POOLS__GPU__NODE_SELECTOR: pools.gpu",
        ),
        (
            "REMEDIATOR_CLUSTER__NAME__X",
            "x",
            "environment REMEDIATOR_CLUSTER__NAME__X: cluster.name: is not a section",
        ),
    ],
)
def test_wrong_variable_is_named(variable: str, value: str, wanted: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, GOOD), {variable: value})
    assert wanted in str(caught.value)


def test_variables_that_kubernetes_makes_for_a_service_set_nothing() -> None:
    """A Service called `remediator` puts these into every pod of its namespace."""
    environ = {
        "REMEDIATOR_SERVICE_HOST": "10.0.0.1",
        "REMEDIATOR_PORT": "tcp://10.0.0.1:8080",
        "REMEDIATOR_PORT_8080_TCP_ADDR": "10.0.0.1",
        "REMEDIATOR_CACHE": "/c",
        "OTHER__X": "1",
    }
    assert overrides(environ) == {}


@pytest.mark.parametrize("text", ["{T0: drain-only, T1: full}", "{t0: drain-only, T1: full, T2: full}"])
def test_a_stage_may_be_given_by_tier(text: str, tmp_path: Path) -> None:
    settings = load(write(tmp_path, GOOD + f"    stage: {text}\n"), {})
    assert settings.pools["gpu"].stage == Stages(T0="drain-only", T1="full")
    with_variable = load(write(tmp_path, GOOD), {"REMEDIATOR_POOLS__GPU__STAGE__T1": "full"})
    assert with_variable.pools["gpu"].stage == Stages(T1="full")


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = load(write(tmp_path, GOOD), {})
    with pytest.raises(ValidationError):
        settings.slurm.poll_busy_s = 5


def test_example_is_a_valid_file_that_holds_every_setting(tmp_path: Path) -> None:
    text = example()
    settings = load(write(tmp_path, text), {})
    assert settings == Settings.model_validate(settings.model_dump())
    for section in Settings.model_fields:
        assert f"\n{section}:" in text
    for name, field in Leadership.model_fields.items():
        assert f"  # {field.description}\n  {name}: " in text


def documented(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, str | None]]:
    for name, field in section.model_fields.items():
        yield path + name, field.description
        below = section_at(section, (name, "any") if name == "pools" else (name,))
        if below:
            yield from documented(below, f"{path}{name}.")


def test_every_setting_is_documented_in_a_sentence() -> None:
    texts = dict(documented(Settings))
    assert {"cluster", "pools.stage", "budgets.drain_t0.percent", "budgets.evict.per_hour"} <= texts.keys()
    assert [name for name, text in texts.items() if not (text or "").endswith(".")] == []


@pytest.mark.parametrize(("nodes", "allowed"), [(0, 2), (4, 2), (29, 2), (30, 3), (1000, 100)])
def test_share_grows_with_the_pool_above_its_least(nodes: int, allowed: int) -> None:
    assert Share(at_least=2, percent=10).of(nodes) == allowed
