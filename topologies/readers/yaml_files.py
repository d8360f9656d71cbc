"""Plain values as YAML and back, one parsing event at a time.

Unlike `yaml.safe_load` it refuses aliases and anchors, tags, keys that are there twice and deep
nesting, and it knows the line of everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any, NoReturn

import yaml

from topologies.errors import InputError, shown
from topologies.readers.mistakes import Location, Place, spelling
from topologies.readers.schema import LONGEST_NOTE

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 8
_A_LINE = 8
_PLAIN = re.compile(
    r"[A-Za-z][A-Za-z0-9_./]*(?: [A-Za-z0-9_./]+)*|[0-9][0-9.e+-]*[a-zA-Z]{0,2}(?:B/s|s|s/B)"
)
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def load(text: str, name: str) -> object:
    """What a YAML document says, as mappings, lists, text, numbers and truth values. Raises
    InputError."""
    loader = _LOADER(text)
    try:
        return _document(loader, name)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise InputError(f"{name}{line}: {problem or 'not YAML'}: expected YAML") from None


def place_in(text: str, name: str) -> Place:
    """Says where a location is in the text of the file `name`: line and keys."""

    def place(location: Location) -> str:
        line = line_of(text, location)
        return f"{name}{f' line {line}' if line else ''}, {spelling(location)}".removesuffix(", ")

    return place


def line_of(text: str, location: Location) -> int | None:
    """The line of a location, or of what comes nearest to it; None if `text` (JSON that is not
    YAML) has none."""
    loader = _LOADER(text)
    try:
        loader.get_event()
        loader.get_event()
        return _seek(loader, location)
    except yaml.YAMLError:
        return None


def dump(content: dict[str, Any]) -> str:
    """A mapping as YAML for people: an entry of a list is a line; ranks are eight to a line."""
    return "".join(f"{key}:{_block(key, value)}\n" for key, value in content.items())


def _block(key: str, value: object) -> str:
    if not isinstance(value, list):
        return f" {_flow(value)}"
    if key != "ranks":
        return "".join(f"\n- {_flow(row)}" for row in value)
    lines = [
        ", ".join(map(_flow, value[first : first + _A_LINE]))
        for first in range(0, len(value), _A_LINE)
    ]
    return " [" + ",\n  ".join(lines) + "]"


def _flow(value: object) -> str:
    """A value within a line. What is not surely plain text is quoted as JSON is."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def _document(loader: Any, name: str) -> object:
    loader.get_event()
    if loader.check_event(yaml.StreamEndEvent):
        raise InputError(f"{name} is empty: it describes nothing")
    loader.get_event()
    value = _node(loader, name, 0)
    loader.get_event()
    if not loader.check_event(yaml.StreamEndEvent):
        _refuse(loader.peek_event(), name, "a second document: one is right")
    return value


def _node(loader: Any, name: str, depth: int) -> object:
    event = loader.get_event()
    _check(event, name, depth)
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(loader, event)
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(loader, name, depth)
    values = []
    while not loader.check_event(yaml.SequenceEndEvent):
        values.append(_node(loader, name, depth + 1))
    loader.get_event()
    return values


def _mapping(loader: Any, name: str, depth: int) -> dict[str, object]:
    values: dict[str, object] = {}
    while not loader.check_event(yaml.MappingEndEvent):
        event = loader.get_event()
        _check(event, name, depth)
        if not isinstance(event, yaml.ScalarEvent):
            _refuse(event, name, "a key that is not text")
        if event.value in values:
            _refuse(event, name, f"the key {shown(event.value)} is there twice")
        values[event.value] = _node(loader, name, depth + 1)
    loader.get_event()
    return values


def _check(event: Any, name: str, depth: int) -> None:
    if getattr(event, "anchor", None):
        _refuse(
            event, name, f"{shown(event.anchor)} is an anchor or alias: write what it stands for"
        )
    if getattr(event, "tag", None):
        _refuse(event, name, f"{shown(event.tag)} is a tag: write plain values")
    if depth > _DEEPEST:
        _refuse(event, name, f"nested more than {_DEEPEST} deep")
    if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_NOTE:
        _refuse(
            event,
            name,
            f"a text of {len(event.value)} characters: at most {LONGEST_NOTE} are allowed",
        )


def _refuse(event: Any, name: str, message: str) -> NoReturn:
    raise InputError(f"{name} line {event.start_mark.line + 1}: {message}")


def _scalar(loader: Any, event: Any) -> object:
    """Text, or what it means in YAML 1.1 where it is not quoted: a number, a truth value, nothing,
    a date."""
    tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    try:
        return loader.yaml_constructors[tag](loader, yaml.ScalarNode(tag, event.value))
    except (KeyError, ValueError):
        return event.value


def _seek(loader: Any, location: Location) -> int:
    """The line of a location within the node that comes next."""
    event = loader.get_event()
    for key, line in _children(loader, event) if location else ():
        if key == location[0]:
            return _seek(loader, location[1:]) if location[1:] else line
        _skip(loader)
    return int(event.start_mark.line) + 1


def _children(loader: Any, event: Any) -> Iterator[tuple[int | str, int]]:
    """Key or number and line of every child of the node that `event` starts; each child is to be
    read or skipped."""
    if isinstance(event, yaml.MappingStartEvent):
        while not loader.check_event(yaml.MappingEndEvent):
            key = loader.get_event()
            yield key.value, key.start_mark.line + 1
    elif isinstance(event, yaml.SequenceStartEvent):
        for number in count():
            if loader.check_event(yaml.SequenceEndEvent):
                return
            yield number, loader.peek_event().start_mark.line + 1


def _skip(loader: Any) -> None:
    depth = 0
    while True:
        event = loader.get_event()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if not depth:
            return
