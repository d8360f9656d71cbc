"""Models in files: every mistake is one line with its place."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.model_files import dumps, read
from grouped_cases import each_case
from model_texts import SMALL, TWO, outcome, refusal
from simulator.training.model import Model, Tensor
from topologies.errors import InputError


def put(content: Any, path: tuple[Any, ...], value: object) -> None:
    """Set what is at a path of keys, if there is still a place for it."""
    *outer, last = path
    for key in outer:
        if isinstance(content, dict):
            content = content.get(key)
        else:
            content = content[key] if isinstance(content, list) and content else None
    if isinstance(content, dict):
        content[last] = value


@each_case(
    ("old", "new", "message"),
    [
        ("1ms", "-1ms", "4, layers[0].forward: '-1ms' is negative: a time is 0s or more"),
        ("1ms", "1", "4, layers[0].forward: '1' has no unit: write it like 25us"),
        ("1ms", "1e-3", "4, layers[0].forward: '1e-3' has no unit: write it like 25us"),
        ("1ms", ".nan", "4, layers[0].forward: 'nan' is not finite: write a time like 25us"),
        ("1ms", ".inf", "4, layers[0].forward: inf is no quantity"),
        ("1ms", "yes", "4, layers[0].forward: 'true' is not a time: write it like 25us"),
        ("1ms", "", "4, layers[0].forward: 'none' is not a time: write it like 25us"),
        ("1ms", "[1ms]", "4, layers[0].forward: a list is no quantity"),
        ("1MiB", "64M", "5, layers[1].parameters.weight: '64M' has no unit: write 64MB or 64MiB"),
        ("4kB", "4000", "4, layers[0].parameters.bias: '4000' has no unit: write 4kB or 4000B"),
        ("4kB", ".inf", "4, layers[0].parameters.bias: inf is no quantity"),
        ("4kB", "-4kB", "4, layers[0].parameters.bias: '-4kB' is negative: write 0 or a size"),
        ("4kB", "{x: 1B}", "4, layers[0].parameters.bias: a mapping is no quantity"),
        ("forward: 1ms", "foward: 1ms", "4, layers[0].forward: is missing (and 1 more mistake)"),
        ("batch: 4", "batch: 0", "2, batch: 0: input should be greater than or equal to 1"),
        ("batch: 4", "batch: 4.5", "2, batch: 4.5 is not a whole number"),
        ("batch: 4", "batch: 4\nbatchs: 3", "3, batchs: no such key: did you mean batch?"),
        ("batch: 4", "batch: 4\nstate: .inf", "3, state: inf: input should be a finite number"),
        ("batch: 4", "batch: 4\ndtype: fp31", "1: model m has the dtype 'fp31': it is one of"),
        ("batch: 4", "batch: 4\nregistration: [a, a]", "3, registration[0]: 'a' is there 2 times"),
        ("batch: 4", "batch: 4\nregistration: [a]", "3, registration: 'b' is not in it"),
        ("batch: 4", "batch: 4\nregistration: [a, c]", "3, registration[1]: 'c' is no layer"),
        ("name: m", "name: 5", "1, name: 5 is not text: put it in quotes"),
        ("name: m", "nme: m", "1, name: is missing (and 1 more mistake)"),
        ("name: b", "name: a", "4, layers[0].name: 'a' is there 2 times: names are unique"),
        ("name: b", "name: *b", "5: found undefined alias: expected YAML"),
        ("name: b", "name: !!python/name:os.system b", "is a tag: write plain values"),
        ("name: b", "name: b, name: c", "5: the key 'name' is there twice"),
        ("batch: 4", "batch: 4\nlayers: []", "the key 'layers' is there twice"),
        ("batch: 4", "batch: [[[[[[[[[[[4]]]]]]]]]]]", "2: nested more than 8 deep"),
        ("batch: 4", "batch: \x00", "2: the character '\\x00' is not text"),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, message: str) -> None:
    """The message follows the name of the file and the word line."""
    assert message in refusal(SMALL.replace(old, new)).removeprefix("m.yaml line ")


@each_case(
    ("text", "message"),
    [
        (
            "name: m\nbatch: 1\nlayers: []",
            "m.yaml line 1: model m has no layers: give it one or more",
        ),
        ("name: m\nbatch: 1\nlayers: 5", "m.yaml line 3, layers: 5 is not a list"),
        ("name: m\nbatch: 1", "m.yaml line 1, layers: is missing"),
        ("[1, 2]", "m.yaml line 1: a list is not a mapping of keys to values"),
        ("just text", "m.yaml line 1: 'just text' is not a mapping of keys to values"),
        (
            "name: m\nbatch: 1\nlayers: [{name: a, forward: 1s, backward: 1s}]",
            "has no gradients: no layer has a",
        ),
        ("", "m.yaml is empty"),
        ("# nothing", "m.yaml is empty"),
        ("{" * 100_000, "m.yaml line 1: Expecting property name enclosed in double quotes"),
        ('{"a":' * 100_000, "m.yaml is nested too deep"),
        ("- " * 300, "m.yaml line 1: nested more than 8 deep"),
        ("- " * 3000, "m.yaml line 1: exceeded maximum nesting depth"),
        (
            SMALL + "- 1\n" * 3,
            "m.yaml line 6, layers[2]: 1 is not a mapping of keys to values (and 2 more mistakes)",
        ),
    ],
)
def test_what_is_no_model_is_refused(text: str, message: str) -> None:
    assert message in refusal(text)


def test_many_layers_are_refused_before_they_are_looked_at() -> None:
    assert "layers: a list: list should have at most 100000 items" in refusal(
        "name: m\nbatch: 1\nlayers: [" + "1," * 100_001 + "]"
    )


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{new}: &{new} [*{old}, *{old}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "an alias stands for it elsewhere" in refusal("\n".join(lines))


@pytest.mark.parametrize("text", [SMALL, json.dumps(yaml.safe_load(SMALL))])
def test_a_file_that_is_cut_off_is_read_as_a_smaller_one_or_refused(text: str) -> None:
    outcomes = [outcome(text[:end], "m") for end in range(len(text))]
    lines = [line for line in outcomes if isinstance(line, str)]
    assert len(lines) > len(text) / 2
    assert not any("\n" in line for line in lines)
    assert all(model.parameters <= TWO.parameters for model in outcomes if isinstance(model, Model))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.yaml is empty"),
        (b" \n", "m.yaml is empty"),
        (bytes(range(256)), "m.yaml: byte 128 is not UTF-8 text"),
        (SMALL.encode("utf-16"), "m.yaml: byte 0 is not UTF-8 text"),
        (gzip.compress(SMALL.encode())[:-20], "m.yaml is damaged or cut off"),
        (b"\x1f\x8bnot gzip", "m.yaml is damaged or cut off"),
        (gzip.compress(bytes(130 * 2**20), 1), "m.yaml has more than 128 MiB"),
        (b"a" * (2**24 + 1), "m.yaml has 16777217 bytes: a model has at most 16777216"),
    ],
    ids=range(8),
)
def test_a_file_of_anything_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(path)


def test_a_file_of_200_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(InputError, match=r"m\.yaml has more than 128 MiB"):
        read(path)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a directory"),
        (Path("a\0b"), "null"),
    ):
        with pytest.raises(InputError, match=reason):
            read(path)


def test_what_no_file_can_hold_is_not_written() -> None:
    doubled = replace(TWO, layers=(TWO.layers[0], TWO.layers[0]))
    tensors = replace(TWO.layers[0], tensors=(Tensor("w", 1.0), Tensor("w", 1.0)))
    for model, message in (
        (doubled, "'a' is there 2 times"),
        (replace(TWO, layers=(tensors,)), "layer a of m has 2 parameters called w"),
        (replace(TWO, name="two\nlines"), "printable"),
        (replace(TWO, optimizer=1e10), "is out of range"),
        (replace(TWO, inputs=0.5), "is not positive|is out of range"),
    ):
        with pytest.raises(InputError, match=message):
            dumps(model)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1ms", "4kB", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "x", "weight"]), inner)
    ),
    max_leaves=5,
)
places = st.sampled_from(
    [
        ("name",),
        ("batch",),
        ("layers",),
        ("layers", 0),
        ("dtype",),
        ("state",),
        ("inputs",),
        ("registration",),
    ]
    + [
        ("layers", 0, key)
        for key in ("name", "forward", "parameters", "activation", "channels", "other")
    ]
)


@given(st.lists(st.tuples(places, values), min_size=1, max_size=3))
def test_of_wrong_types_anywhere_there_is_a_model_or_one_line(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    content = yaml.safe_load(SMALL)
    for path, value in changes:
        put(content, path, value)
    for text, name in ((yaml.safe_dump(content), "m.yaml"), (json.dumps(content), "m.json")):
        result = outcome(text, name)
        assert isinstance(result, Model) or ("\n" not in result and result.startswith(name))


@given(st.text() | st.text("{}[]:,-&*!|>'\"# \nab1"))
def test_of_any_text_there_is_one_line(text: str) -> None:
    refusal(text)
