"""Text of an option becomes a value in one place of its command."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3] / "experiments"
FINDERS = ("find", "find_machine", "find_profile")
"""Parsers with other names: from text to a machine, a model, a profile, a strategy."""


def calls() -> Iterator[tuple[str, str]]:
    """The file of each call of a parser on an option of the request, and the call."""
    for path in sorted([*(ROOT / "commands").glob("*.py"), *(ROOT / "options").glob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                function = ast.unparse(node.func).rpartition(".")[2]
                option = ast.unparse(node.args[0])
                is_parser = function.startswith("parse_") or function in FINDERS
                if is_parser and option.partition(".")[0] in ("self", "request", "options"):
                    yield path.name, f"{function}({option.partition('.')[2]})"


def test_an_option_is_parsed_in_one_place() -> None:
    """What is needed twice is a cached property."""
    counted = Counter(calls())
    assert {call: count for call, count in counted.items() if count > 1} == {}
    assert len(counted) > 30
