"""`python -m deploy.setup.codecheck`: every public name has a docstring, functions and modules stay small."""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.setup.cache import REPO

FOLDERS = ("remediator", "slurm_bridge", "deploy")
MAX_FUNCTION = 60
MAX_MODULE = 500

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Report:
    """What was found: offenders as `file:line: text`, lengths in lines, and the longest function."""

    problems: tuple[str, ...]
    modules: tuple[int, ...]
    functions: tuple[int, ...]

    def summary(self) -> str:
        """One line with the medians and the longest."""
        return (
            f"codecheck: {len(self.modules)} modules (median {_median(self.modules)} lines, longest "
            f"{max(self.modules, default=0)}), {len(self.functions)} functions (median "
            f"{_median(self.functions)} lines, longest {max(self.functions, default=0)}), "
            f"{len(self.problems)} problems"
        )


def _median(lengths: tuple[int, ...]) -> int:
    return round(statistics.median(lengths)) if lengths else 0


def check(files: Iterable[Path], base: Path) -> Report:
    """Read the files and report; names in the report are relative to `base`."""
    problems: list[str] = []
    modules: list[int] = []
    functions: list[int] = []
    for file in sorted(files):
        source = file.read_text()
        tree = ast.parse(source, filename=str(file))
        lines = len(source.splitlines())
        modules.append(lines)
        functions += [length(node) for node in ast.walk(tree) if isinstance(node, Function)]
        found = [*undocumented(tree), *too_long(tree, lines)]
        problems += [f"{file.relative_to(base)}:{line}: {text}" for line, text in sorted(found)]
    return Report(tuple(problems), tuple(modules), tuple(functions))


def length(node: Function) -> int:
    """Lines of a function from `def` to its last line, docstring included."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_long(tree: ast.Module, lines: int) -> Iterator[tuple[int, str]]:
    """Line and text of each function and module over its limit."""
    if lines > MAX_MODULE:
        yield 1, f"module has {lines} lines, at most {MAX_MODULE} are allowed"
    for node in ast.walk(tree):
        if isinstance(node, Function) and length(node) > MAX_FUNCTION:
            yield node.lineno, f"{node.name} has {length(node)} lines, at most {MAX_FUNCTION} are allowed"


def undocumented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each public module, class, function and method without a docstring."""
    if not ast.get_docstring(tree):
        yield 1, "the module has no docstring"
    for name, node in public(tree.body, ""):
        if not ast.get_docstring(node):
            yield node.lineno, f"{name} has no docstring"


def public(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Public definitions of a module or class body with dotted names; those in functions are private."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from public(node.body, prefix)
        elif isinstance(node, Function | ast.ClassDef) and _needs_words(node):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}{node.name}.")


def _needs_words(node: Function | ast.ClassDef) -> bool:
    """Overloads and setters are documented where the name is first defined."""
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return not node.name.startswith("_") and not decorators & {"overload", "setter", "override"}


def main() -> int:
    """Check the repository's own code; exit 1 with one line per offender."""
    report = check((file for folder in FOLDERS for file in (REPO / folder).rglob("*.py")), REPO)
    for problem in report.problems:
        print(problem)
    print(report.summary())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
