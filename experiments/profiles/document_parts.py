"""Parts of a profile's document, and how named tuples are read and written in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer


class DocumentPart(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _changed(part: NamedTuple) -> dict[str, Any]:
    """The fields without those that have their defaults."""
    values = part._asdict().items()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values
        if value != part._field_defaults.get(name)
    }


def _mapping(value: object) -> object:
    """The value. A list would fill the fields of a named tuple in their order."""
    if isinstance(value, list):
        raise ValueError("a list is not a mapping of keys to values")
    return value


Keys = BeforeValidator(_mapping)
Changed = PlainSerializer(_changed)
"""Fields with their defaults are not written."""
Whole = PlainSerializer(lambda part: part._asdict())
"""All fields are written, so that a later version may have other defaults."""
