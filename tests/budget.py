"""`python -m tests.budget`: the size of the house, package by package, as `tests/budget.toml` holds
it.

Nodes of the syntax tree count, without docstrings: long names, comments and documentation are free.
"""

import ast
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.style_numbers import PACKAGES, files

BUDGET = Path(__file__).with_suffix(".toml")
WHOLE = "whole"
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def nodes(source: str) -> Iterator[ast.AST]:
    """The nodes of a file without its docstrings.

    >>> len([*nodes("")]), len([*nodes("'''Text.'''")])
    (1, 1)
    """
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        yield node
        inner = [*ast.iter_child_nodes(node)]
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            inner.remove(node.body[0])
        waiting += inner


def package_of(path: str) -> str:
    """The package of a file: the first two folders.

    >>> package_of("simulator/parallel/pipelines/paper_orders.py"), package_of("simctl/__init__.py")
    ('simulator/parallel', 'simctl')
    """
    return "/".join(Path(path).parts[:-1][:2])


def sizes(sources: Mapping[str, str]) -> dict[str, Counter[str]]:
    """Nodes and classes of each package and of the whole; statements but imports, and their nodes:
    a file that takes in another one has fewer imports, and no denser lines."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path, source in sources.items():
        for node in nodes(source):
            for place in (WHOLE, package_of(path)):
                counts[place]["nodes"] += 1
                counts[place]["classes"] += isinstance(node, ast.ClassDef)
                if not isinstance(node, ast.Import | ast.ImportFrom | ast.alias):
                    counts[place]["statements"] += isinstance(node, ast.stmt)
                    counts[place]["within"] += 1
    return counts


def class_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The packages of the classes of each name."""
    names: dict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        for node in nodes(source):
            if isinstance(node, ast.ClassDef):
                names[node.name].append(package_of(path))
    return names


def budget() -> dict[str, dict[str, int]]:
    """The numbers that no package may exceed."""
    return tomllib.loads(BUDGET.read_text())


def main() -> int:
    """Print the sizes as the budget writes them."""
    for place, counts in sorted(sizes(files(PACKAGES)).items(), key=lambda item: item[0] != WHOLE):
        numbers = f"nodes = {counts['nodes']}, classes = {counts['classes']}"
        sys.stdout.write(f'"{place}" = {{ {numbers} }}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
