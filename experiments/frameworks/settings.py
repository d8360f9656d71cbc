"""The settings of a training job in a file of a framework: nested YAML or JSON, TOML, or the
arguments of a command in a shell script. Each is a path of keys with a value and a line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from experiments.frameworks.arguments import arguments_in
from topologies.errors import InputError, shown
from topologies.readers.contents import check_text, text_of
from topologies.readers.plain_files import parts_of, yaml_root

MOST_BYTES = 2**20
MOST_SETTINGS = 10_000
MOST_VALUES = 100_000
"""Values of a YAML file; those of an alias count where it stands."""
_DEEPEST = 24
Entries = Iterator[tuple[str, Any, int]]
"""Keys, values and lines."""


class FileSetting(NamedTuple):
    """A value that a file gives to a key."""

    key: str
    """The keys above it and its own, like model.num_layers."""
    value: Any
    """Text, a number, a truth value, None, or a list of these."""
    place: str
    """The file and the line."""

    def __str__(self) -> str:
        key, value = self.key[:120], words_of(self.value)
        key = key if key.isprintable() else shown(key)
        is_plain = len(value) < 80 and value.isprintable()
        return f"{self.place}, {key}={value if is_plain else shown(value)}"


def words_of(value: object) -> str:
    """A value as the user writes it."""
    if isinstance(value, list):
        mark = "|" if value and isinstance(value[0], list) else ","
        return mark.join(map(words_of, value))
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    # Python does not write a number of thousands of digits.
    return hex(value) if isinstance(value, int) and value.bit_length() > 999 else str(value)


def read_settings(path: Path) -> list[FileSetting]:
    """The settings in a file, in its order.

    Raises InputError, in one line with the file and the line, for a file that cannot be read, that
    gives a key twice, and for more than 10,000 settings.
    """
    expected, smaller = "YAML, TOML or arguments", "a plan is smaller"
    text, name = check_text(text_of(path, MOST_BYTES, expected, smaller), path.name), path.name
    entries = _READERS.get(path.suffix.lower(), arguments_in)(text, name)
    settings = [
        FileSetting(key, value, f"{name} line {line}")
        for key, value, line in islice(entries, MOST_SETTINGS + 1)
    ]
    if len(settings) > MOST_SETTINGS:
        raise InputError(f"{name} has more than {MOST_SETTINGS} settings: {smaller}")
    if not settings:
        raise InputError(f"{name} has no settings: expected {expected} like --key value")
    return settings


def _of_yaml(text: str, name: str) -> Entries:
    loader, root = yaml_root(text, name)
    _count_values(root, name, {}, 0)
    return _of_node(loader, root, "", name, 0)


def _count_values(node: Any, name: str, counts: dict[int, int], depth: int) -> int:
    """How many values a node has; 1 for those that are in too many others. `counts` has those of
    the nodes before it, by their id. Raises InputError for too many."""
    if isinstance(node, yaml.ScalarNode) or depth > _DEEPEST:
        return 1
    if id(node) not in counts:
        counts[id(node)] = 1  # what it is for an alias in itself
        is_list = isinstance(node, yaml.SequenceNode)
        items = node.value if is_list else [item for _, item in node.value]
        counts[id(node)] += sum(_count_values(item, name, counts, depth + 1) for item in items)
    if counts[id(node)] > MOST_VALUES:
        place = f"{name} line {node.start_mark.line + 1}"
        raise InputError(f"{place}: more than {MOST_VALUES} values: a plan is smaller")
    return counts[id(node)]


def _of_node(loader: Any, node: Any, key: str, name: str, depth: int) -> Entries:
    line = node.start_mark.line + 1
    if depth > _DEEPEST:
        raise InputError(f"{name} line {line}: nested more than {_DEEPEST} deep")
    if isinstance(node, yaml.ScalarNode):
        yield key, _scalar(loader, node), line
    elif isinstance(node, yaml.SequenceNode):
        lists = [node] if _is_plain(node) else node.value
        if all(map(_is_plain, lists)):
            rows = [[_scalar(loader, item) for item in each.value] for each in lists]
            yield key, rows[0] if lists == [node] else rows, line
            return
        for number, item in enumerate(node.value):
            yield from _of_node(loader, item, f"{key}[{number}]", name, depth + 1)
    else:
        parts = parts_of(node, name)
        target, values = parts.get("_target_"), parts.get("_args_")
        if isinstance(target, yaml.ScalarNode) and "_call_" in parts:
            # A function, a dtype or a member of an enumeration, as Megatron-Bridge writes them.
            inner = values.value if isinstance(values, yaml.SequenceNode) else []
            is_member = inner and isinstance(inner[0], yaml.ScalarNode)
            yield key, _scalar(loader, inner[0]) if is_member else target.value, line
            return
        for word, item in parts.items():
            if word.startswith("--"):  # an argument, as Megatron-LM's tests have them
                word = word[2:].replace("-", "_")
            yield from _of_node(loader, item, f"{key}.{word}".lstrip("."), name, depth + 1)


def _is_plain(node: Any) -> bool:
    """Whether a node is a list of values."""
    return isinstance(node, yaml.SequenceNode) and all(
        isinstance(item, yaml.ScalarNode) for item in node.value
    )


def _scalar(loader: Any, node: Any) -> Any:
    try:
        return loader.construct_object(node)
    except (yaml.YAMLError, ValueError):  # a tag of Python, or a date that does not exist
        return node.value


def _of_toml(text: str, name: str) -> Entries:
    try:
        content = tomllib.loads(text)
    except ValueError as error:
        place = re.search(r" \(at line (\d+)", str(error))
        line = f" line {place[1]}" if place else ""
        raise InputError(
            f"{name}{line}: {str(error).partition(' (at ')[0]}: expected TOML"
        ) from None
    except RecursionError:
        raise InputError(f"{name} is nested too deep") from None
    return _of_table(content, "", _lines(text), name)


def _of_table(table: Mapping[str, Any], above: str, lines: Mapping[str, int], name: str) -> Entries:
    if above.count(".") > _DEEPEST:
        raise InputError(f"{name}: nested more than {_DEEPEST} deep")
    for word, value in table.items():
        key = f"{above}.{word}".lstrip(".")
        if isinstance(value, dict):
            yield from _of_table(value, key, lines, name)
        else:
            yield key, value, lines.get(key, 1)


def _lines(text: str) -> dict[str, int]:
    """The line of each key of a TOML file; tomllib has none."""
    lines, section = dict[str, int](), ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := re.match(r"\s*\[+([^\]]+)\]", line):
            section = heading[1].strip()
        elif key := re.match(r"\s*([\w.\"-]+)\s*=", line):
            lines.setdefault(f"{section}.{key[1]}".lstrip("."), number)
    return lines


_READERS = {".yaml": _of_yaml, ".yml": _of_yaml, ".json": _of_yaml, ".toml": _of_toml}
NESTED = tuple(_READERS)
"""The endings of nested documents."""
