from __future__ import annotations

from pathlib import Path

from deploy.setup import codecheck

GOOD = '''"""A module."""


class Thing:
    """A thing."""

    value = 1

    def act(self) -> int:
        """Do it."""

        def inner() -> int:
            return self.value

        return inner()

    def _quiet(self) -> None:
        pass

    def __len__(self) -> int:
        return 0


def _helper() -> None:
    pass
'''


def report(tmp_path: Path, source: str) -> codecheck.Report:
    file = tmp_path / "m.py"
    file.write_text(source)
    return codecheck.check([file], tmp_path)


def test_documented_code_has_no_problem_and_private_names_need_no_words(tmp_path: Path) -> None:
    found = report(tmp_path, GOOD)
    assert found.problems == ()
    assert sorted(found.functions) == [2, 2, 2, 2, 7]


def test_each_public_name_without_words_is_named(tmp_path: Path) -> None:
    source = "class A:\n    def b(self) -> None:\n        pass\n\n\nasync def c() -> None:\n    pass\n"
    assert report(tmp_path, source).problems == (
        "m.py:1: A has no docstring",
        "m.py:1: the module has no docstring",
        "m.py:2: A.b has no docstring",
        "m.py:6: c has no docstring",
    )


def test_a_setter_and_an_overload_need_no_words_of_their_own(tmp_path: Path) -> None:
    source = (
        '"""M."""\nfrom typing import overload\n@overload\ndef f(a: int) -> int: ...\n'
        'def f(a):\n    """F."""\nclass A:\n    """A."""\n    @property\n    def x(self):\n        """X."""\n'
        "    @x.setter\n    def x(self, v):\n        pass\n"
    )
    assert report(tmp_path, source).problems == ()


def test_a_function_of_60_lines_passes_and_one_of_61_does_not(tmp_path: Path) -> None:
    def function(name: str, lines: int) -> str:
        return f"def {name}() -> None:\n" + "    pass\n" * (lines - 1)

    found = report(tmp_path, '"""M."""\n' + function("_a", 60) + function("_b", 61))
    assert found.problems == ("m.py:62: _b has 61 lines, at most 60 are allowed",)


def test_a_module_over_500_lines_is_named(tmp_path: Path) -> None:
    found = report(tmp_path, '"""M."""\n' + "x = 1\n" * 500)
    assert found.problems == ("m.py:1: module has 501 lines, at most 500 are allowed",)


def test_the_summary_gives_counts_and_medians(tmp_path: Path) -> None:
    assert report(tmp_path, GOOD).summary() == (
        "codecheck: 1 modules (median 25 lines, longest 25), "
        "5 functions (median 2 lines, longest 7), 0 problems"
    )
