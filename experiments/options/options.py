"""The options that several commands take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer

from experiments.answer_files import ALL, Files
from experiments.options.completion import collective_names, completer, profile_names
from experiments.output import Value
from topologies.errors import InputError, nearest_name, spelling

Request = TypeVar("Request")


def group_of(kind: type[Request], **options: object) -> Request:
    """A command's class or a group of options, from values by name. A number is a text where the
    option is. Raises InputError for a name or a value that the class has not."""
    from topologies.readers.mistakes import Mistakes

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


UNSTORED = "not stored"
"""Marks an option that says how an answer is made and shown, and is the same answer without it."""


@cache
def declared(kind: Any) -> dict[str, Any]:
    """The options of a class by name: the type of each, with what typer says of it."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        each.name: Annotated[hints[each.name], *each.metadata["about"]]
        if "about" in each.metadata
        else hints[each.name]
        for each in fields(kind)
    }


class Options:
    """The options of a command, or of a part of it, as the user writes them."""

    @property
    def resolved(self) -> Mapping[str, Value]:
        """Options as a command takes them, where that is not what the user writes."""
        return {}

    @property
    def parameters(self) -> dict[str, Value]:
        """What is stored with a result: all options that have a value. Files to write, and options
        that are `UNSTORED`, are left out."""
        kind: Any = type(self)
        stated = {
            name: getattr(self, name)
            for name, hint in declared(kind).items()
            if not hint.__metadata__[0].writable and UNSTORED not in hint.__metadata__
        }
        known = {**stated, **self.resolved}.items()
        return {name: _stored(value) for name, value in known if value not in (None, "", [])}

    def values_of(self, kind: type) -> dict[str, Any]:
        """The values of options by name: of those that a group has."""
        return {each.name: getattr(self, each.name) for each in fields(kind)}

    def refuse(self, names: Iterable[str], after: str, before: str = "") -> None:
        """Raise InputError for the first of some options that is not as usual: it stands in the
        message as "--p 8", of a long value 40 letters, and a flag as "--in-place"."""
        for name in names:
            if (value := getattr(self, name)) != getattr(type(self), name):
                written = "" if value is True else f" {value!s:.40}"
                raise InputError(f"{before}--{name.replace('_', '-')}{written}{after}")


def _stored(value: Any) -> Value:
    """The value of an option as JSON takes it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, PathLike) else value


def option(
    help: str,
    *names: str,
    default: Any = None,
    repeats: bool = False,
    stored: bool = True,
    word: str = "",
    **how: Any,
) -> Any:
    """An option of a command, as a field of its class. `names` are by default that of the field,
    and `how` goes to typer. One that `repeats` is several values, joined by semicolons. With a
    `word`, like "[ALGO]", its value may also stand without its name."""
    about = typer.Option(*names, help=help, **how), *[UNSTORED] * (not stored)
    return field(default=default, metadata={"about": about, "repeats": repeats, "word": word})


def argument(
    metavar: str,
    help: str,
    default: Any = None,
    repeats: bool = False,
    stored: bool = True,
    **how: Any,
) -> Any:
    """A word of a command that has no name before it, else like an :func:`option`."""
    about = typer.Argument(metavar=metavar, help=help, **how), *[UNSTORED] * (not stored)
    return field(default=default, metadata={"about": about, "repeats": repeats})


Format = Literal["table", "csv", "json"]
"""How a table is printed."""
LibraryName = Literal["nccl", "rccl", "openmpi", "mpich", "gloo"]
"""A communication library with a population of measured machines."""
ALGORITHM_HELP = (
    "One algorithm: see `simctl list algos`.  [default: ring; with a library what that takes]"
)


def word_or_option(word: str | None, value: str | None, name: str = "algo") -> str | None:
    """What a command line names, as a word or as the option `name`. Raises InputError for both."""
    if word is not None and value is not None:
        raise InputError(f"{word[:80]} and --{name} {value[:80]}: leave one of them out")
    return word if value is None else value


Size = Annotated[
    str | None,
    typer.Option(
        help="V, the size as nccl-tests counts it, like 1GiB.  "
        "[default: 64MiB; with --matrix what the file says]"
    ),
]
CollectiveName = Annotated[
    str | None,
    typer.Option(
        help="All algorithms of a collective, like all_to_all.",
        autocompletion=completer(collective_names),
    ),
]
AlgorithmFile = Annotated[
    str | None,
    typer.Option(
        help="An algorithm in a file: FILE.py[:NAME], or .xml, .json, .goal of other tools."
    ),
]
Engines = Annotated[
    Literal["auto", "reference", "compiled"],
    typer.Option(
        help="auto: reference for small runs, compiled for large runs. Same results.", hidden=True
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        help="A calibrated machine: NAME or FILE.yaml. simctl simulates each of its protocols, and "
        "prints the fastest.",
        autocompletion=completer(profile_names),
    ),
]
Level = Annotated[
    float | None,
    typer.Option(
        help="The share of runs that an interval holds. It goes with --profile or "
        "--library.  [default: 0.8]",
    ),
]
LibraryVersion = Annotated[
    str | None,
    typer.Option(
        help="The version of the library, like 2.16: it decides whether NCCL has NVLS and "
        "NVLSTree, and by which rules Open MPI chooses.  [default: a new one]",
    ),
]
PopulationName = Annotated[
    LibraryName | None,
    typer.Option(
        help="A library on a machine that nobody has measured: as on all measured machines, with "
        "the bandwidths of --topology.",
    ),
]
Times = Annotated[
    str | None,
    typer.Option(
        help="What a device's share of the model takes: forward=1ms, inputs=1ms and weights=1ms of "
        "its backward, transfer=0s to the next device. blocking=yes: a device computes nothing "
        "while it sends. kept=50: percent of the activations that the backward for weights "
        "needs.  [default: these]",
    ),
]
Plot = Annotated[
    Path | None, typer.Option(help="Draw a picture: FILE.png, .svg or .pdf.", writable=True)
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Write a report: FILE.html for a browser, FILE.md for a ticket.", writable=True
    ),
]
RunTimeline = Annotated[
    Path | None,
    typer.Option(
        "--timeline",
        help="Draw what each rank does over time: FILE.png, .svg, .pdf, or .json for Perfetto. Or "
        "write a trace for each worker: FOLDER/ for Kineto, FOLDER.chakra/ for Chakra.",
        writable=True,
    ),
]
"""A timeline of a training run."""
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Start the command even if it will take hours, or more memory than is free.",
        hidden=True,
    ),
    UNSTORED,
]


@dataclass(frozen=True, kw_only=True)
class FormatOptions(Options):
    """How an answer is printed."""

    format: Format = option("Format of the output on stdout.", default="table", stored=False)

    @property
    def written_files(self) -> Files:
        """The files that the answer is written to."""
        named = {name: getattr(self, name, None) for name in ("out", "plot", "report", "timeline")}
        return Files(**named, trace=getattr(self, "choice", ALL))


@dataclass(frozen=True, kw_only=True)
class ReportOptions(FormatOptions):
    """A picture and a report of an answer."""

    plot: Plot = None
    report: Report = None
