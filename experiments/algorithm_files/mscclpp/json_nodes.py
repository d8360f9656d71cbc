"""Values of a JSON document that know their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from topologies.errors import InputError, shown


class Node(NamedTuple):
    """A value and its place, like plan.json: gpus[0].id."""

    place: str
    value: Any

    def mistake(self, right: str) -> InputError:
        """The error for the value, with what would be right."""
        return InputError(f"{self.place} is {shown(self.value)}: {right}")

    def has(self, key: str) -> bool:
        """Whether the value is a mapping with this key."""
        return isinstance(self.value, dict) and key in self.value

    def at(self, key: str) -> Node:
        """The value of a key of a mapping."""
        if not isinstance(self.value, dict):
            raise self.mistake("expected a mapping")
        if key not in self.value:
            raise InputError(f"{self.place} has no {key}")
        return Node(f"{self.place}.{key}", self.value[key])

    def items(self, key: str, *, optional: bool = False) -> list[Node]:
        """The values of a list; none if the list is optional and missing."""
        if optional and not self.has(key):
            return []
        node = self.at(key)
        if not isinstance(node.value, list):
            raise node.mistake("expected a list")
        return [Node(f"{node.place}[{place}]", value) for place, value in enumerate(node.value)]

    def whole(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`."""
        value = self.value
        if most < least:
            raise self.mistake("there is none of these")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.mistake(f"expected a whole number from {least} to {most}")
        return value

    def word(self, words: Sequence[str]) -> str:
        """One of some words."""
        if not isinstance(self.value, str) or self.value not in words:
            raise self.mistake(f"expected one of {', '.join(words)}")
        return str(self.value)

    def text(self) -> str:
        """A text of 1 to 80 printable characters."""
        if not isinstance(self.value, str) or not 0 < len(self.value) <= 80:
            raise self.mistake("expected a name of at most 80 characters")
        return str(self.value)
