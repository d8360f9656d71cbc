"""The texts of options become values: conditions, epochs, ranks."""

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.options.condition_parser import parse, slow_links
from grouped_cases import each_case
from simulator.training.conditions import Conditions, Failure
from topologies.errors import InputError


def test_nothing_is_said() -> None:
    assert parse() == Conditions()
    assert slow_links(None) == {}


def test_all_is_said() -> None:
    conditions = parse(
        "3:1.5,5:2",
        "lognormal:0.1",
        "rank=3,step=5,restart=30s,timeout=10s,checkpoint=4",
        "0:7",
        seed=9,
    )
    assert conditions == Conditions(
        {3: 1.5, 5: 2.0}, 0.1, (), 9, Failure(3, 5, 30.0, 10.0, 4), {0: 7}
    )
    assert slow_links("3:0.5,gpu0->switch:.25") == {3: 0.5, "gpu0->switch": 0.25}


def test_noise_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.txt"
    file.write_text("1.5\n2e-1\n30ms\n")
    assert parse(noise=str(file)).observed == (1.5, 0.2, 0.03)


@each_case(
    ("options", "message"),
    [
        ({"straggler": "3"}, "--straggler '3'"),
        ({"straggler": ""}, "--straggler '': a rank and a number, like 3:1.5"),
        ({"straggler": ","}, "--straggler '': a rank and a number"),
        ({"straggler": "3:2,,4:2"}, "--straggler '': a rank and a number"),
        ({"batches": ""}, "--batches '': a rank and a number, like 3:8"),
        ({"noise": ""}, "--noise ''"),
        ({"fail": ""}, "--fail ''"),
        ({"straggler": "3:0"}, "straggler 3:0"),
        ({"straggler": "3:1,3:2"}, "named twice"),
        ({"noise": "lognormal"}, "lognormal:0.1"),
        ({"noise": "lognormal:-1"}, "lognormal:0.1"),
        ({"noise": "/no/such/file"}, "neither lognormal:SIGMA nor a file"),
        ({"noise": "\0"}, "neither lognormal:SIGMA nor a file"),
        ({"fail": "rank=3"}, "rank=3,step=5,restart=30s"),
        ({"fail": "rank=x,step=5,restart=30s"}, "--fail: rank=x"),
        ({"fail": "rank=1,step=5,restart=30"}, "no unit"),
        ({"fail": "rank=1,step=5,restart=30s,colour=red"}, "rank=3,step=5"),
        ({"batches": "3:x"}, "--batches '3:x'"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(**options)  # type: ignore[arg-type]


@each_case("content", [b"", b"\xff\xfe", b"1\nx\n", b"-1\n", b"nan\n", b"1e999\n"])
def test_a_file_of_no_times_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "steps.txt"
    file.write_bytes(content)
    with pytest.raises(InputError):
        parse(noise=str(file))


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (
        lambda: parse(straggler=text),
        lambda: parse(fail=text),
        lambda: parse(batches=text),
        lambda: slow_links(text),
    ):
        with suppress(InputError):
            read()


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
