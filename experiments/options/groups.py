"""Groups of options: the fields of a dataclass, declared once for several commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Real
from os import PathLike
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from topologies.errors import InputError, nearest_name

Group = TypeVar("Group")


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as typer can read it. A parameter whose default is a dataclass becomes an option a
    field, with the default's value as the default of the option. A field that `repeats` takes
    several values, and has them joined by semicolons."""
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
            lists = {key: value for key, value in mine.items() if isinstance(value, list)}
            mine |= {key: "; ".join(value) if value else None for key, value in lists.items()}
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
        hint = hints[field.name]
        if field.metadata.get("repeats"):
            hint = Annotated[list[str] | None, *hint.__metadata__]
        yield Parameter(
            field.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=getattr(group, field.name),
            annotation=hint,
        )


def group_of(kind: type[Group], *first: object, **options: object) -> Group:
    """A group from Python: the values of its `first` options, and others by name. A number is a
    text where the option is. Raises InputError for a name or a value that the group has not."""
    from topologies.readers.mistakes import Mistakes, spelling

    kinds, mistakes = dict([*get_type_hints(kind).items()][len(first) :]), Mistakes()
    for name, value in options.items():
        if name not in kinds:
            raise InputError(f"no option {name}: {nearest_name(name, kinds, ', '.join(kinds))}")
        is_text = str in (kinds[name], *get_args(kinds[name])) and not isinstance(value, bool)
        plain = str(value) if is_text and isinstance(value, Real | PathLike) else value
        options[name] = mistakes.checked(kinds[name], plain, (name,))
    mistakes.report(spelling)
    return kind(*first, **options)
