"""Random command lines, made of what the commands themselves declare: names, types and numbers of
values."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from random import Random
from typing import Any, Literal, get_args, get_origin

import typer

from command_values import (
    ALWAYS,
    FAMILIES,
    HELD_AGAINST,
    LINKS,
    OWN,
    SHAPES,
    SILENT,
    SWEPT,
    VALUES,
    Value,
)
from hostile_values import HOSTILE

Path = tuple[str, ...]
"""The words that name a command."""
HELP = "--help"


@cache
def commands() -> Mapping[Path, tuple[Any, ...]]:
    """Every command with its parameters, as typer has them."""
    from experiments.cli import app

    return dict(_commands(typer.main.get_command(app), ()))


def _commands(group: Any, above: Path) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from _commands(command, (*above, name))
        else:
            options = (each for each in command.params if each.name != "help_all")
            yield (*above, name), tuple(options)


def annotation(parameter: Any) -> Any:
    """The type of a parameter's value."""
    return parameter.type_descriptor.annotation


def value_of(path: Path, parameter: Any) -> Value:
    """Where valid values come from. Raises KeyError for a parameter that is not known here."""
    kind = annotation(parameter)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda random: str(random.choice(list(kind)).value)
    if get_origin(kind) is Literal:
        return lambda random: str(random.choice(get_args(kind)))
    return OWN.get((path, parameter.name)) or VALUES[parameter.name]


def command_line(path: Path, random: Random) -> list[str]:
    """A command with some of its options: most often all valid, and sometimes with one mistake."""
    if random.random() < 0.01:
        return [*path, HELP]
    chosen = _chosen(path, random)
    words = [*path]
    for parameter, values in chosen:
        words += _words(parameter, values)
    return _damaged(words, len(path), random) if random.random() < 0.12 else words


def _chosen(path: Path, random: Random) -> list[tuple[Any, list[str]]]:
    """Parameters and their values; what contradicts another is mostly left out."""
    parameters = commands()[path]
    optional = [parameter for parameter in parameters if not parameter.required]
    always = ALWAYS.get(path, ()) if random.random() < 0.95 else ()
    options = random.sample(optional, min(len(optional), random.choice((0, 1, 2, 2, 3, 4, 6))))
    chosen = {}
    for parameter in parameters:
        if parameter.required or parameter in options or parameter.name in always:
            number = random.choice((1, 1, 2)) if parameter.nargs == -1 else 1
            chosen[parameter.name] = (
                parameter,
                [value_of(path, parameter)(random) for _ in range(number)],
            )
    if random.random() < 0.9:
        if path == ("validate",) and "held_out" in chosen:
            profile, runs = random.choice(HELD_AGAINST)
            chosen = {name: chosen[name] for name in ("held_out", "logs")}
            chosen["profile"] = _named("validate", "profile"), [profile]
            chosen["logs"] = chosen["logs"][0], [runs]
        _reconcile(chosen)
    return list(chosen.values())


def _reconcile(chosen: dict[str, tuple[Any, list[str]]]) -> None:
    """Leave out what contradicts the rest."""
    topology = chosen["topology"][1][0] if "topology" in chosen else None
    shape = topology is not None and topology.partition(":")[0] in SHAPES
    conflicts: tuple[str, ...] = ()
    if "profile" in chosen or not shape:
        conflicts += (*LINKS, *(("topology", "reduction") if "profile" in chosen else ()))
    if "algo_file" in chosen or "collective" in chosen:
        conflicts += ("algo",)
    if "algo_file" in chosen or "algo" in chosen:
        conflicts += ("word", "algo_word")
    if "fit" in chosen:
        conflicts += (*LINKS, "sharing", *(() if shape else ("topology",)))
    if "learn" in chosen:
        conflicts += ("sweep", "timeline", "batches", "jobs", "resume")
        conflicts += ("epochs",)
    elif "sweep" in chosen:
        name, value = SWEPT[chosen["sweep"][1][0].partition("=")[0]]
        chosen[name] = chosen.get(name, (_named("train", name), []))[0], [value]
        conflicts += ("timeline", "bucket")
    elif "p" not in chosen or not {",", "."} & set(chosen["p"][1][0]):
        conflicts += ("plot",) if "strategy" in chosen or "straggler" in chosen else ()
    if "held_out" not in chosen:
        conflicts += ("tolerance", "compare")
    if "plot" not in chosen:
        conflicts += ("measured",)
    files = [
        word
        for name in ("files", "log", "logs", "runs")
        if name in chosen
        for word in chosen[name][1]
    ]
    if files and files[0] not in SILENT:
        conflicts += ("p",)
    if FAMILIES not in files:
        conflicts += ("family",)
    if "only" in chosen and not any(chosen["only"][1][0] in file for file in files):
        conflicts += ("only",)
    for name in conflicts:
        chosen.pop(name, None)


def _named(command: str, name: str) -> Any:
    return next(parameter for parameter in commands()[command,] if parameter.name == name)


def _words(parameter: Any, values: list[str]) -> list[str]:
    if parameter.param_type_name == "argument":
        return values
    name = parameter.opts[0]
    if parameter.is_flag:
        return [name]
    return [f"{name}={values[0]}"] if values[0].startswith("-") else [name, values[0]]


def _damaged(words: list[str], start: int, random: Random) -> list[str]:
    """One mistake: a word that is hostile, gone, doubled, or one too many."""
    places = range(start, len(words))
    at = random.choice(places) if places else start
    kind = random.randrange(4)
    if kind == 0 or not places:
        return [*words[:at], random.choice(HOSTILE), *words[at:]]
    if kind == 1:
        return [*words[:at], random.choice(HOSTILE), *words[at + 1 :]]
    if kind == 2:
        return [*words[:at], *words[at + 1 :]]
    return [*words, *words[at:]]
