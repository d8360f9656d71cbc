"""From the class of a command, whose fields are its options, to what typer runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache, partial
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from topologies.errors import InputError

CLASSES = {
    "sweep": "sweep:Sweep",
    "run": "run:CollectiveRun",
    "train": "train:Train",
    "plan": "plans:Plans",
    "profile-model": "profile_model:ProfileModel",
    "animate": "animate:Animate",
    "recommend": "recommend:Recommend",
    "measure": "measure:Measure",
    "validate": "validate:Validate",
    "calibrate": "calibrate:Calibrate",
    "diagnose": "diagnose:Diagnose",
    "report": "report:ReportPage",
    "list": "list:List",
    "pipelines": "pipelines:Pipelines",
    "doctor": "doctor:Doctor",
    "algos import": "algos:ImportedAlgorithm",
    "algos export": "algos:ExportedAlgorithm",
    "topo show": "topo:ShownMachine",
    "topo import": "topo:ImportedMachine",
}
"""Where the class of each command is: a module of experiments.commands, and the name."""
STYLE = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def show_all(context: typer.Context, asked: bool) -> None:
    """Print the help with the options that --help leaves out."""
    if asked:
        for option in context.command.params:
            vars(option)["hidden"] = False
        typer.echo(context.get_help())
        raise typer.Exit


HELP_ALL = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=show_all,
        help="Show rare options, too.",
    ),
]


def show_help(context: typer.Context) -> None:
    """Print the help of a group that is called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command_of(name: str, kind: Any) -> Any:
    """The command of a class: an option a field, those of the class itself first. A field that
    `repeats` takes several values, and has them joined by semicolons. The docstring is the help.
    """

    def call(help_all: bool = False, **values: Any) -> None:
        for key, value in values.items():
            if key in repeated:
                values[key] = "; ".join(value) if value else None
        request = kind(**values)
        check_kept(request)
        raise typer.Exit(request.run())

    known, hints = {each.name: each for each in fields(kind)}, _hints(kind)
    repeated = [key for key, each in known.items() if each.metadata.get("repeats")]
    declared = [key for base in kind.__mro__ for key in vars(base).get("__annotations__", ())]
    parameters = []
    for key in dict.fromkeys(key for key in declared if key in known):
        hint, default = hints[key], known[key].default
        if key in repeated:
            hint = Annotated[list[str] | None, *hint.__metadata__]
        default = Parameter.empty if default is MISSING else default
        parameters.append(Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    parameters.append(
        Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=HELP_ALL)
    )
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=STYLE)
    examples = "\n\n".join(f"Example: simctl {example}" for example in kind.EXAMPLES)
    app.command(name, help=kind.__doc__, epilog=examples)(call)
    command = get_command(app)
    _read_plainly(command.params)
    return command


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The annotations of the options, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind)}


def _read_plainly(options: Iterable[Any]) -> None:
    for option in options:
        if hasattr(option, "type_descriptor"):
            option.process_value = partial(_read, option)


def _read(option: Any, context: Any, value: Any) -> Any:
    """The value of an option. Typer reads values by pydantic, whose import takes longer than a
    short command: what needs little conversion is read here, the rest and mistakes by typer."""
    kind = option.type_descriptor.annotation
    if value is None and not (option.required or option.multiple or option.nargs != 1):
        return None
    if isinstance(kind, type) and value is not None and option.callback is None:
        if isinstance(value, kind):
            return value
        if kind is Path:
            return Path(value)
        if issubclass(kind, Enum) and value in [member.value for member in kind]:
            return kind(value)
        if kind is int:
            return _whole(value, option)
    return type(option).process_value(option, context, value)


def _whole(text: str, option: Any) -> int:
    """The whole number of an option. Raises InputError with the range of the option."""
    info = option.type_descriptor.parameter_info
    number = int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None
    low, high = info.min, info.max
    if number is not None and (low is None or low <= number) and (high is None or number <= high):
        return number
    limits = [f" from {low}"] * (low is not None) + [f" to {high}"] * (high is not None)
    raise InputError(f"{option.opts[0]} {text[:40]!r}: expected a whole number{''.join(limits)}")


def check_kept(request: Any) -> None:
    """Raise InputError if a file to write, a `writable` option, is one that the command reads."""
    written, read = dict[str, Path](), set[Path]()
    for key, hint in _hints(type(request)).items():
        value = getattr(request, key)
        if hint.__metadata__[0].writable:
            written |= {key: value} if value else {}
        else:
            words = value if isinstance(value, list | tuple) else [value]
            read |= {path.resolve() for word in words for path in _files(str(word))}
    for key, path in written.items():
        if path.resolve() in read:
            option = f"--{key.replace('_', '-')} {path}"
            raise InputError(f"{option}: the command reads this file, name another one")


def _files(text: str) -> Iterator[Path]:
    """The files that an option names: alone, in a list, or with options behind a colon."""
    for name in {text, *text.split(","), text.partition(":")[0]}:
        path = Path(name)
        try:
            if path.suffix and path.is_file():
                yield path
        except (OSError, ValueError):
            continue


class Commands(TyperGroup):
    """Commands by name, like "algos import", each imported when it is asked for."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before the command."""
        options = super().get_params(ctx)
        _read_plainly(options)
        return options

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of commands and groups, in their order."""
        return [*dict.fromkeys(name.split()[0] for name in self._names)]

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command or a group; None if there is none of that name."""
        if name not in self.commands and name in self._names:
            module, _, kind = self._names[name].partition(":")
            found = getattr(import_module(f"experiments.commands.{module}"), kind)
            self.commands[name] = command_of(name, found)
        return self.commands.get(name)

    @property
    def _names(self) -> dict[str, str]:
        """The classes of this group."""
        above = f"{self.name} "
        inner = {
            name.removeprefix(above): place
            for name, place in CLASSES.items()
            if name.startswith(above)
        }
        return inner or CLASSES
