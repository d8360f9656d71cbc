"""Mistakes in a document as text: the place of the first, its reason, and the number of others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from topologies.errors import InputError, Location, Place, shown

Mistake = tuple[Location, str]

WORDS = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "too_short": "is empty: at least one is needed",
    "string_type": "{value} is not text: put it in quotes",
    "bool_type": "{value} is not true or false",
    "bool_parsing": "{value} is not true or false",
    "int_type": "{value} is not a whole number",
    "int_parsing": "{value} is not a whole number",
    "int_from_float": "{value} is not a whole number",
    "float_type": "{value} is not a number",
    "float_parsing": "{value} is not a number",
    "list_type": "{value} is not a list",
    "tuple_type": "{value} is not a list",
    "dict_type": "{value} is not a mapping of keys to values",
    "model_type": "{value} is not a mapping of keys to values",
    "named_tuple_type": "{value} is not a mapping of keys to values",
    "arguments_type": "{value} is not a mapping of keys to values",
}
"""Our words for types of pydantic's errors. Other types have pydantic's words."""


class Mistakes:
    """The first mistake of a document and the number of all: a large file may have millions."""

    def __init__(self, words: Mapping[str, str] = WORDS) -> None:
        self._words = words
        self._first: Mistake = ((), "")
        self._number = 0

    def checked(self, kind: Any, value: object, location: Location = ()) -> Any:
        """The value as `kind`, a pydantic model or a type; None after a mistake."""
        return self._checked(TypeAdapter(kind), kind, value, location)

    def entries(self, kind: Any, values: object, key: str) -> list[Any]:
        """The entries of the list at a key, each as `kind`."""
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        rows = values if isinstance(values, list) else []
        return [
            self._checked(adapter, kind, value, (key, number)) for number, value in enumerate(rows)
        ]

    def add(self, mistakes: Iterable[Mistake]) -> None:
        """Count more mistakes."""
        for mistake in mistakes:
            self._first = self._first if self._number else mistake
            self._number += 1

    def report(self, place: Place) -> None:
        """Raises InputError with the first mistake, if there are any."""
        if not self._number:
            return
        location, message = self._first
        unshown = self._number - 1
        more = f" (and {unshown} more mistake{'s' * (unshown > 1)})" if unshown else ""
        raise InputError(f"{place(location)}: {message}{more}")

    def _checked(
        self, adapter: TypeAdapter[Any], kind: Any, value: object, location: Location
    ) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            if not self._number:
                wrong = error.errors(include_url=False)[0]
                inner = tuple(key for key in wrong["loc"] if key != "[key]")
                self._first = (*location, *inner), self._message(wrong, kind, inner)
            self._number += error.error_count()
            return None

    def _message(self, wrong: ErrorDetails, kind: Any, location: Location) -> str:
        value, text = shown(wrong["input"]), wrong["msg"]
        if wrong["type"] in self._words:
            return self._words[wrong["type"]].format(value=value, **wrong.get("ctx", {}))
        if wrong["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            return unknown("key", str(location[-1]), _keys(kind, location[:-1]))
        if wrong["type"] == "value_error":
            return text.removeprefix("Value error, ")
        return f"{value}: {text[0].lower()}{text[1:]}"


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """The message for an unknown name, with the nearest known name."""
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"no such {what}: {hint}there are {', '.join(known)}"[:600]


def _keys(kind: Any, location: Location) -> list[str]:
    fields = _fields(kind)
    for key in location:
        fields = _fields(fields.get(str(key))) or fields
    return list(fields)


def _fields(annotation: Any) -> dict[str, Any]:
    """The types of the keys of a model or a named tuple, also within a type like
    dict[str, list[Model]]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        return {field.alias or name: field.annotation for name, field in fields.items()}
    if names := getattr(annotation, "_fields", ()):
        return dict.fromkeys(names)
    return next(filter(None, map(_fields, get_args(annotation))), {})
