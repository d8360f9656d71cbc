"""From the class of a command, whose fields are its options, to what typer runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperGroup
from typer.main import get_command

from topologies.errors import InputError

COMMANDS = {
    "sweep": ("sweep:Sweep", "Simulate algorithms at many rank counts and sizes."),
    "run": ("run:CollectiveRun", "Simulate one collective and explain where its time goes."),
    "train": ("train:Train", "Simulate training steps and explain their communication."),
    "plan": ("train:Plans", "Simulate parallel training, or find the fastest plan."),
    "profile-model": (
        "profile_model:ProfileModel",
        "Time a torch module layer by layer, for simctl train.",
    ),
    "animate": ("animate:Animate", "Show step by step which rank sends what to whom."),
    "recommend": ("recommend:Recommend", "Say which algorithm is best at each size, and why."),
    "measure": ("measure:Measure", "Measure torch.distributed, and simctl's schedules on it."),
    "validate": ("validate:Validate", "Compare measured logs with the simulation."),
    "calibrate": ("calibrate:Calibrate", "Fit a machine's links and software to measured runs."),
    "diagnose": (
        "diagnose:Diagnose",
        "Say whether measured times are normal, and what to try.",
    ),
    "expect": (
        "expect:Expect",
        "Print what a library should give on a machine, by size.",
    ),
    "serve": ("serve:Serve", "Predict how fast an engine serves a model."),
    "report": ("report:ReportPage", "Make one page of stored results, tables and logs."),
    "list": ("list:List", "List algorithms, machines, models or strategies."),
    "pipelines": ("pipelines:Pipelines", "Compare orders of pipelines."),
    "doctor": ("doctor:Doctor", "Print versions, folders and where compiled code is kept."),
    "algos": ("", "Import and export algorithms."),
    "algos import": ("algos:ImportedAlgorithm", "Read an algorithm from a file, and prove it."),
    "algos export": (
        "algos:ExportedAlgorithm",
        "Write an algorithm as a program for another tool.",
    ),
    "topo": ("", "Show and import machines."),
    "topo show": ("topo:ShownMachine", "Show the links, distances, rings and bounds of a machine."),
    "topo import": (
        "topo:ImportedMachine",
        "Write a machine of another tool, or one by name, to a file.",
    ),
}
"""The class of each command, a name in a module of experiments.commands, and the first line of its
docstring: `--help` prints it without importing the class. A group of commands has no class."""
STYLE = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def class_of(command: str) -> Any:
    """The class of a command, like "algos import", whose module is imported."""
    module, _, kind = COMMANDS[command][0].partition(":")
    return getattr(import_module(f"experiments.commands.{module}"), kind)


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
    from experiments.options.options import declared, word_or_option

    def call(help_all: bool = False, **values: Any) -> None:
        for key in repeated:
            values[key] = "; ".join(values[key]) if values[key] else None
        for key in words:
            values[key] = word_or_option(values.pop(f"{key}_word"), values[key], key)
        request = kind(**values)
        check_kept(request)
        raise typer.Exit(request.run())

    known, hints = {each.name: each for each in fields(kind)}, declared(kind)
    repeated = [key for key, each in known.items() if each.metadata.get("repeats")]
    words = {key: each.metadata["word"] for key, each in known.items() if each.metadata.get("word")}
    order = [key for base in kind.__mro__ for key in vars(base).get("__annotations__", ())]
    keyword, parameters = partial(Parameter, kind=Parameter.KEYWORD_ONLY), []
    for key in dict.fromkeys(key for key in order if key in known):
        hint, default = hints[key], known[key].default
        if key in repeated:
            hint = Annotated[list[str] | None, *hint.__metadata__]
        default = Parameter.empty if default is MISSING else default
        parameters.append(keyword(key, default=default, annotation=hint))
    for key, metavar in words.items():
        complete, same = hints[key].__metadata__[0].autocompletion, f"The same as --{key}."
        word = typer.Argument(metavar=metavar, help=same, autocompletion=complete)
        hint = Annotated[str | None, word]
        parameters.append(keyword(f"{key}_word", default=None, annotation=hint))
    parameters.append(keyword("help_all", default=False, annotation=HELP_ALL))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=STYLE)
    examples = "\n\n".join(f"Example: simctl {example}" for example in kind.EXAMPLES)
    app.command(name, help=kind.__doc__, epilog=examples)(call)
    return get_command(app)


def _read_plainly(options: Iterable[Any]) -> None:
    for option in options:
        if hasattr(option, "type_descriptor"):
            option.process_value = partial(_read, option)


def _read(option: Any, context: Any, value: Any) -> Any:
    """The value of an option. Typer reads values by pydantic, whose import takes longer than a
    short command: what needs little conversion is read here, the rest and mistakes by typer."""
    kind = option.type_descriptor.annotation
    if value in get_args(kind) or (
        value is None
        and not option.required
        and option.nargs == 1
        and not (option.multiple and option.default is not None)
    ):
        return value
    if isinstance(kind, type) and value is not None and option.callback is None:
        if isinstance(value, kind):
            return value
        if kind is Path:
            return Path(value)
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
    from experiments.options.options import declared

    written, read = dict[str, Path](), set[Path]()
    for key, hint in declared(request.__class__).items():
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
        return [*self._registry]

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command or a group; None if there is none of that name."""
        if name not in self.commands and name in self._registry:
            full = f"{self.name} {name}"
            self.commands[name] = command_of(name, class_of(full if full in COMMANDS else name))
            _read_plainly(self.commands[name].get_params(ctx))
        return self.commands.get(name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names of commands and groups with their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._registry.items()])

    @property
    def _registry(self) -> dict[str, tuple[str, str]]:
        """The commands of this group, or of all: its own commands and the groups."""
        above = f"{self.name} "
        inner = {
            name.removeprefix(above): entry
            for name, entry in COMMANDS.items()
            if name.startswith(above)
        }
        return inner or {name: entry for name, entry in COMMANDS.items() if " " not in name}
