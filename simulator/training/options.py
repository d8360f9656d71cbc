"""Options of a strategy: fields of a dataclass that know what they are for."""

from dataclasses import field
from typing import Any, Literal

Unit = Literal["", "bytes", "seconds", "bandwidth"]


def option(default: Any, help: str, unit: Unit = "") -> Any:
    """A field with a default, one line on what it is for, and the unit in which a number of it is
    written."""
    return field(default=default, metadata={"help": help, "unit": unit})
