"""Plain values as YAML or JSON and back, with strict rules: no key twice, no NaN and no nesting
without end.

Unlike `yaml.safe_load` this refuses aliases and tags of values that are no text, and it knows the
line of everything.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import yaml

from topologies.errors import InputError, Location, Place, naming, shown, spelling

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 8
_LONGEST_NUMBER = 20
_PLAIN = re.compile(
    r"[A-Za-z][A-Za-z0-9_./]*(?: [A-Za-z0-9_./]+)*|[0-9][0-9.e+-]*[a-zA-Z]{0,2}(?:B/s|s|s/B)"
)


def load_yaml(text: str, name: str) -> object:
    """What a YAML document says, as mappings, lists, text, numbers and truth values. Raises
    InputError."""
    loader, root = yaml_root(text, name)
    return _value(loader, root, name, set(), 0)


def yaml_root(text: str, name: str) -> tuple[Any, Any]:
    """The loader and the root node of a YAML document, for those who need the lines of values.
    Raises InputError."""
    loader = _LOADER(text)
    try:
        document = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{name}{line}: {problem or 'not YAML'}: expected YAML") from None
    if document is None:
        raise InputError(f"{name} is empty: it describes nothing")
    return loader, document


def place_in(text: str, name: str) -> Place:
    """Says where a location is in the text of the file `name`: line and keys."""

    def place(location: Location) -> str:
        line = line_of(text, location)
        return f"{name}{f' line {line}' if line else ''}, {spelling(location)}".removesuffix(", ")

    return place


def line_of(text: str, location: Location) -> int | None:
    """The line of a location, or of what comes nearest to it; None if `text` (JSON that is not
    YAML) has none."""
    try:
        node = _LOADER(text).get_single_node()
    except yaml.YAMLError:
        return None
    start = node
    for key in location:
        rows = node.value if isinstance(node, yaml.CollectionNode) else []
        pairs = {number: (row, row) for number, row in enumerate(rows)}
        if isinstance(node, yaml.MappingNode):
            pairs = {first.value: (first, second) for first, second in rows}
        if key not in pairs:
            break
        start, node = pairs[key]
    return int(start.start_mark.line) + 1


def dump_yaml(content: dict[str, Any]) -> str:
    """A mapping as YAML for people: an entry of a list is a line, and so are the ranks."""
    text = ""
    for key, value in content.items():
        lines = isinstance(value, list) and key != "ranks"
        rows = "".join(f"\n- {_flow(row)}" for row in value) if lines else f" {_flow(value)}"
        text += f"{key}:{rows}\n"
    return text


def _flow(value: object) -> str:
    """A value within a line. What is not surely plain text is quoted as JSON is. PyYAML's dumper
    takes twenty times as long."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    words = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in words
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def _value(loader: Any, node: Any, name: str, met: set[int], depth: int) -> object:
    """The value of a node that is not among those that were `met`: an alias is its node again."""

    def refuse(part: Any, message: str) -> InputError:
        return InputError(f"{name} line {part.start_mark.line + 1}: {message}")

    if id(node) in met:
        raise refuse(node, "an alias stands for it elsewhere: write it twice")
    if depth > _DEEPEST:
        raise refuse(node, f"nested more than {_DEEPEST} deep")
    met.add(id(node))
    plain = loader.resolve(type(node), node.value, (True, False))
    if node.tag not in (plain, "tag:yaml.org,2002:str"):
        raise refuse(node, f"{shown(node.tag)} is a tag: write plain values")
    if isinstance(node, yaml.ScalarNode):
        try:
            return loader.construct_object(node)
        except (yaml.YAMLError, ValueError):  # such as a date that does not exist
            return node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, name, met, depth + 1) for item in node.value]
    parts = parts_of(node, name).items()
    return {key: _value(loader, item, name, met, depth + 1) for key, item in parts}


def parts_of(node: Any, name: str) -> dict[str, Any]:
    """The nodes of a mapping by key. Raises InputError for a key that is no text or there twice."""
    parts: dict[str, Any] = {}
    for key, item in node.value:
        place = f"{name} line {key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{place}: a key that is not text")
        if key.value in parts:
            raise InputError(f"{place}: the key {shown(key.value)} is there twice")
        parts[key.value] = item
    return parts


def load_json(text: str, name: str) -> object:
    """What a JSON document says. Raises InputError."""
    try:
        with naming(name):
            return json.loads(
                text, object_pairs_hook=_mapping, parse_int=_whole, parse_constant=_constant
            )
    except json.JSONDecodeError as error:
        raise InputError(f"{name} line {error.lineno}: {error.msg}: expected JSON") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deep") from None


def dump_json(content: dict[str, Any]) -> str:
    """A mapping as JSON; every device, medium and link is a line."""
    text = partial(json.dumps, ensure_ascii=False)
    parts = []
    for key, value in content.items():
        lines = isinstance(value, list) and isinstance(value[0], dict)
        rows = ",\n  ".join(map(text, value)) if lines else ""
        parts.append(f" {text(key)}: " + (f"[\n  {rows}\n ]" if rows else text(value)))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        if key in values:
            raise InputError(f"the key {shown(key)} is there twice")
        values[key] = value
    return values


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise InputError(
            f"{digits[:_LONGEST_NUMBER]}... is larger than any number that is used here"
        )
    return int(digits)


def _constant(word: str) -> object:
    raise InputError(
        f'{word} is no number that JSON knows: write quantities as text, like "50GB/s"'
    )
