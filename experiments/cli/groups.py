"""Groups of options: the fields of a dataclass, declared once for several commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as typer can read it. A parameter whose default is a dataclass becomes an option a
    field, with the default's value as the default of the option."""
    parameters = signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.default
        for name, parameter in parameters.items()
        if is_dataclass(parameter.default)
    }

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            mine = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = replace(group, **mine)
        command(**values)

    options = [option for parameter in parameters.values() for option in _options(parameter)]
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _options(parameter: Parameter) -> Iterator[Parameter]:
    """The parameter, or the fields of its group."""
    group = parameter.default
    if not is_dataclass(group):
        yield parameter
        return
    hints = get_type_hints(type(group), include_extras=True)
    for field in fields(group):
        yield Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=getattr(group, field.name),
            annotation=hints[field.name],
        )
