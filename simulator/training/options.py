"""Options of a strategy: fields of a dataclass that know what they are for."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """A field with a default and one line on what it is for."""
    return field(default=default, metadata={"help": help})
