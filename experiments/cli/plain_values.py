"""Values of options that need little conversion, read without pydantic."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from typer.core import TyperGroup

from experiments.cli.kept_files import check_kept
from topologies.errors import InputError


class PlainValues:
    """Reads defaults, texts, whole numbers and words of an Enum. All else is read as typer does."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of an option, from the command line or its default."""
        kind = param.type_descriptor.annotation
        several = param.multiple and param.default is not None
        if value is None and not several and param.nargs == 1:
            return None
        if isinstance(kind, type):
            if isinstance(value, kind):
                return value
            if issubclass(kind, Enum) and value in [member.value for member in kind]:
                return kind(value)
            if kind is int:
                return _whole(value, param)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _whole(text: str, param: Any) -> int:
    """The whole number of an option. Raises InputError with the range of the option."""
    info = param.type_descriptor.parameter_info
    low, high = (getattr(info, name, None) for name in ("min", "max"))
    number = int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None
    if number is not None and _is_within(number, low, high):
        return number
    limits = [f" from {low}"] * (low is not None) + [f" to {high}"] * (high is not None)
    raise InputError(f"{param.opts[0]} {text[:40]!r}: expected a whole number{''.join(limits)}")


def _is_within(number: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= number) and (high is None or number <= high)


class PlainGroup(TyperGroup):
    """A group of commands whose options are read without pydantic where that is possible."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before the command."""
        return _with_plain_values(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, and the words after it."""
        if not ctx.resilient_parsing:
            check_kept(args)
        name, command, rest = super().resolve_command(ctx, args)
        _with_plain_values(command.get_params(ctx) if command else [])
        return name, command, rest


def _with_plain_values(options: list[Any]) -> list[Any]:
    """Options that read plain values. Versions of typer without pydantic are left alone."""
    for option in options:
        if getattr(option, "_runtime_param", 0) is None:
            option._runtime_param = PlainValues()
    return options
