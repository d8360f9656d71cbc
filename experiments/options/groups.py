"""Options of commands from Python."""

from __future__ import annotations

from dataclasses import fields
from numbers import Real
from os import PathLike
from typing import TypeVar, get_args, get_type_hints

from topologies.errors import InputError, nearest_name

Request = TypeVar("Request")


def group_of(kind: type[Request], **options: object) -> Request:
    """A command's class or a group of options, from values by name. A number is a text where the
    option is. Raises InputError for a name or a value that the class has not."""
    from topologies.readers.mistakes import Mistakes, spelling

    hints, mistakes = get_type_hints(kind), Mistakes()
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for name, value in options.items():
        if name not in names:
            raise InputError(f"no option {name}: {nearest_name(name, names, ', '.join(names))}")
        is_text = str in (hints[name], *get_args(hints[name])) and not isinstance(value, bool)
        plain = str(value) if is_text and isinstance(value, Real | PathLike) else value
        options[name] = mistakes.checked(hints[name], plain, (name,))
    mistakes.report(spelling)
    return kind(**options)
