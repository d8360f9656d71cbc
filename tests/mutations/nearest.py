"""The tests that are nearest to a file: its doctests, the mirrored test files, then those that
import it."""

import ast
from collections import deque
from functools import cache
from pathlib import Path

FLOORS = ("simulator", "topologies")
LAWS = "tests/laws"
OWN = (
    "test_compilation.py",
    "test_buckets_torch.py",
)
"""Test files that start processes or import torch: for the mutants of their module alone."""


def nearest(root: Path, path: str) -> list[str]:
    """Files to run for a mutant of `path`, the nearest first, the laws last."""
    far = _steps(root, path)
    tests = [
        test
        for floor in FLOORS
        for test in _tests(root, f"tests/{floor}")
        if test in far or _is_named(test, path)
    ]
    tests = [test for test in tests if Path(test).name not in OWN or _is_named(test, path)]
    closest = min((far.get(test, 0) for test in tests), default=0)
    near = [test for test in tests if _is_named(test, path) or far[test] <= closest + 1]
    folder = str(Path("tests", path).parent)
    near.sort(
        key=lambda test: (
            not _is_named(test, path),
            len(Path(test).stem) if _is_named(test, path) else 0,
            far.get(test, 0),
            str(Path(test).parent) != folder,
        )
    )
    return [path, *near, *_tests(root, LAWS)]


def _steps(root: Path, path: str) -> dict[str, int]:
    """Files that import `path`, and by how many steps: none from a private file, and none to the
    package of a file."""
    users: dict[str, list[str]] = {}
    for file in (*_files(root), *_tests(root, "tests")):
        for used in _imports(root, file):
            users.setdefault(used, []).append(file)
    distances, waiting = dict[str, int](), deque([(0, path)])
    while waiting:
        steps, used = waiting.popleft()
        if used in distances:
            continue
        distances[used] = steps
        for user in users.get(used, []):
            if _is_private(used) or user == str(Path(used).parent / "__init__.py"):
                waiting.appendleft((steps, user))
            else:
                waiting.append((steps + 1, user))
    return distances


def _is_private(file: str) -> bool:
    return Path(file).name.startswith("_") and Path(file).name != "__init__.py"


def _is_named(test: str, path: str) -> bool:
    """Whether a test file has the name of its module, perhaps with a word more, on the same
    floor."""
    name, floor = f"test_{Path(path).stem.lstrip('_')}", Path(path).parts[0]
    return f"{Path(test).stem}_".startswith(f"{name}_") and (
        Path(test).parts[1] == floor or "/_" in path
    )


@cache
def _files(root: Path) -> tuple[str, ...]:
    return tuple(
        str(file.relative_to(root))
        for floor in FLOORS
        for file in sorted((root / floor).rglob("*.py"))
    )


@cache
def _tests(root: Path, folder: str) -> tuple[str, ...]:
    files = sorted((root / folder).rglob("test_*.py")) + sorted(
        (root / folder).glob("helpers/*.py")
    )
    return tuple(str(file.relative_to(root)) for file in files)


@cache
def _imports(root: Path, file: str) -> frozenset[str]:
    """The files that a file imports; a package looks up its families by name, so that it imports
    all its files."""
    files: set[str] = set()
    for node in ast.walk(ast.parse((root / file).read_text())):
        if isinstance(node, ast.Import):
            files.update(*(_places(root, alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                files |= _places(root, f"{node.module}.{alias.name}") or _places(root, node.module)
    if file.endswith("/__init__.py"):
        files |= {
            neighbour for neighbour in _files(root) if Path(neighbour).parent == Path(file).parent
        }
    return frozenset(files)


def _places(root: Path, name: str) -> set[str]:
    path = name.replace(".", "/")
    return {
        place
        for place in (f"{path}.py", f"{path}/__init__.py", f"tests/helpers/{path}.py")
        if (root / place).is_file()
    }
