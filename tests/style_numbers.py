"""`python -m tests.style_numbers`: how long and deep functions are, and what breaks the limits.

Lines and files have limits everywhere, functions in the three packages. The parameters of the
command line's functions are its options, and those of dataclasses are their fields, so that
neither has a limit.
"""

import ast
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("topologies", "simulator", "experiments", "simctl")
FOLDERS = (*PACKAGES, "tests", "examples", "docs")
MOST_PARAMETERS, MOST_LINES, MOST_NESTED = 8, 80, 5
MOST_COLUMNS, MOST_LINES_OF_FILE = 100, 400
COMMANDS = "experiments/cli/"
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Measured(NamedTuple):
    """A function: its file, its name, and its numbers."""

    path: str
    name: str
    parameters: int
    lines: int
    """Lines of the body without its docstring."""
    nesting: int
    """Blocks within blocks; `elif` counts as its `if`."""

    @property
    def excess(self) -> str:
        """What breaks the limits, in words; empty if nothing does."""
        excesses = []
        if self.parameters > MOST_PARAMETERS and not self.path.startswith(COMMANDS):
            excesses.append(f"{self.parameters} parameters")
        if self.lines > MOST_LINES:
            excesses.append(f"{self.lines} lines")
        if self.nesting > MOST_NESTED:
            excesses.append(f"{self.nesting} blocks deep")
        return ", ".join(excesses)


def measure(path: str, source: str) -> Iterator[Measured]:
    """The functions of a file, inner ones too.

    >>> source = "def f(a, *b):\\n    if a:\\n        return b\\n"
    >>> [tuple(one)[1:] for one in measure("x.py", source)]
    [('f', 2, 2, 1)]
    """
    for node in _statements(ast.parse(source)):
        if isinstance(node, Function):
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            named += [each for each in (arguments.vararg, arguments.kwarg) if each]
            counted = sum(argument.arg not in ("self", "cls") for argument in named)
            yield Measured(path, node.name, counted, _lines(node), _nesting(node))


def long_lines(path: str, source: str) -> Iterator[str]:
    """The places of lines that are too long."""
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > MOST_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns"


def long_files(path: str, source: str) -> Iterator[str]:
    """The file, if it has too many lines."""
    count = len(source.splitlines())
    if count > MOST_LINES_OF_FILE:
        yield f"{path}: {count} lines"


def files(folders: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The source of every file in these folders, by its path from the root."""
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def excesses() -> list[str]:
    """What breaks the limits, a line each."""
    functions = [each for path, source in files().items() for each in measure(path, source)]
    places = [
        place
        for path, source in files(FOLDERS).items()
        for place in (*long_files(path, source), *long_lines(path, source))
    ]
    return places + [
        f"{each.path}: {each.name}: {each.excess}" for each in functions if each.excess
    ]


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right inside, and the branches of `try` and `match`: no expressions, which are
    most nodes of a file."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements of a file, however deep."""
    for child in _inside(node):
        yield child
        yield from _statements(child)


def _lines(node: Function) -> int:
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in _inside(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and [child] == node.orelse
        inside = depth + isinstance(child, _BLOCKS) - is_elif
        deepest = max(deepest, _nesting(child, inside))
    return deepest


def main() -> int:
    """Print the numbers and what breaks the limits; 1 if something does."""
    functions = [function for path, source in files().items() for function in measure(path, source)]
    for name, limit in (
        ("parameters", MOST_PARAMETERS),
        ("lines", MOST_LINES),
        ("nesting", MOST_NESTED),
    ):
        numbers = sorted(getattr(function, name) for function in functions)
        middle, high = statistics.median(numbers), numbers[int(0.9 * len(numbers))]
        sys.stdout.write(f"{name:10}  median {middle:.0f}  90% {high}  most {numbers[-1]}")
        sys.stdout.write(f"  (limit {limit})\n")
    broken = excesses()
    sys.stdout.writelines(f"{line}\n" for line in broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
