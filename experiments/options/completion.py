"""What a terminal completes: names of algorithms, machines, profiles, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module

BREAKS = (":", "=")
"""Characters at which bash begins a new word."""
BEFORE = "_SIMCTL_BEFORE"
"""The environment variable with the part of a word that bash has cut off."""
Options = Callable[[str], Mapping[str, str]]
"""The options of a name, each with a value to begin with."""


def completer(
    names: Callable[[], list[str]], options: Options | None = None
) -> Callable[[str], list[str]]:
    """Complete the last of a comma-separated list, of names or of the `options` of a name."""

    def complete(incomplete: str) -> list[str]:
        before = os.environ.get(BEFORE, "")
        text, known = before + incomplete, names()
        head, comma, _ = text.rpartition(",")
        words = [f"{head}{comma}{name}" for name in known]
        name, colon, tail = text.rpartition(":")
        if options and colon and name.rpartition(",")[2] in known:
            words += _options(name, tail, options(name.rpartition(",")[2]))
        return [word.removeprefix(before) for word in words if word.startswith(text)]

    return complete


def _options(name: str, text: str, options: Mapping[str, str]) -> list[str]:
    complete, comma, _ = text.rpartition(",")
    used = {part.partition("=")[0] for part in complete.split(",")}
    return [
        f"{name}:{complete}{comma}{key}={value}"
        for key, value in options.items()
        if key not in used
    ]


def join_words(environment: MutableMapping[str, str]) -> None:
    """Undo that bash cuts a word like "ddp:bucket=25MiB" at each colon and equals sign.

    bash replaces only what follows the last of them: that remains the word, and `BEFORE` holds what
    stands before it.
    """
    words, place = environment["COMP_WORDS"].split(), int(environment["COMP_CWORD"])
    first = place
    while first > 1 and (words[first : first + 1] in _CUT or words[first - 1 : first] in _CUT):
        first -= 1
    word = words[place] if place < len(words) and words[place] not in BREAKS else ""
    before, options = "".join(words[first : place + 1]).removesuffix(word), list[str]()
    if before.startswith("--"):
        option, _, before = before.partition("=")
        options = [option]
    environment[BEFORE] = before
    environment["COMP_WORDS"] = " ".join([*words[:first], *options, word])
    environment["COMP_CWORD"] = str(first + len(options))


_CUT = [[character] for character in BREAKS]


def _example(text: str) -> str:
    """A value for an option with this help.

    >>> _example("β of a link, like 50GB/s"), _example("samples a device, 1 to 64 [32]")
    ('50GB/s', '32')
    """
    for pattern in (r"like ([^ ,\]]+)", r"\[([^ \]]+)\]$", r"^([a-z]+)\b[:,]"):
        if match := re.search(pattern, text):
            return match[1]
    return ""


def _names(module: str, name: str) -> Callable[[], list[str]]:
    """Lists what a module knows, a mapping or a function that makes one. The module is imported
    when a terminal asks."""

    def names() -> list[str]:
        known = getattr(import_module(module), name)
        return list(known() if callable(known) else known)

    return names


algorithm_names = _names("simulator.collectives", "algorithms")
pipeline_names = _names("simulator.parallel.pipelines", "orders")
placement_orders = _names("topologies.variants", "ORDERS")
library_names = _names("experiments.calibration.libraries", "LIBRARIES")
strategy_names = _names("simulator.training", "strategies")
profile_names = _names("experiments.profiles", "names")
model_names = _names("experiments.models.model_catalogue", "MODELS")


def measured_names() -> list[str]:
    return [*_names("experiments.measure.patterns", "PROMISES")(), *algorithm_names()]


def machine_names() -> list[str]:
    return [*_names("topologies.shapes", "SHAPES")(), *_names("topologies.clusters", "MACHINES")()]


def algorithm_options(name: str) -> dict[str, str]:
    from simulator.collectives import algorithms

    return {key: str(value) for key, value in algorithms()[name].options.items()}


def collective_names() -> list[str]:
    from simulator.collectives import algorithms

    return list(dict.fromkeys(each.collective.name for each in algorithms().values()))


def machine_options(name: str) -> dict[str, str]:
    from functools import partial

    from topologies.catalogue import HELP, option_names
    from topologies.clusters import cluster
    from topologies.shapes import SHAPES

    make = SHAPES.get(name) or partial(cluster, name)
    return {key: _example(HELP[key]) for key in option_names(make)}


def strategy_options(name: str) -> dict[str, str]:
    from experiments.training.strategy_options import default_text
    from simulator.training import find
    from topologies.option_text import options_of

    return {key: default_text(option) for key, option in options_of(find(name)).items()}


def model_options(name: str) -> dict[str, str]:
    from experiments.models.model_catalogue import MODELS

    return {key: _example(meaning) for key, meaning in MODELS[name].options.items()}


complete_algorithms = completer(algorithm_names, algorithm_options)
complete_machines = completer(machine_names, machine_options)
complete_models = completer(model_names, model_options)
complete_strategies = completer(strategy_names, strategy_options)
