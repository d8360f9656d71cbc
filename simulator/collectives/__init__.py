"""The algorithms by name.

The package finds every file in it that declares algorithms: a new algorithm needs no entry anywhere
else. The files are imported when the caller first asks for an algorithm.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from simulator.collectives.algorithm_options import with_options
from simulator.collectives.collective import DECLARED, Algorithm, Collective
from topologies.errors import InputError, nearest_name

FIRST = ("ring", "rings", "gloo", "pairwise")
"""Files listed before the others, which follow by name. The first algorithm of a collective is the
default for measurements of that collective."""
FOLDER = Path(__file__).parent


@cache
def algorithms() -> dict[str, Algorithm]:
    """Every algorithm of simctl by name."""
    return _declared([path.stem for path in FOLDER.glob("[!_]*.py")])


@cache
def _first_files(name: str) -> dict[str, Algorithm]:
    """The algorithms of the files in which `name` is declared: to import all files takes a third of
    the time of a small command."""
    words = f'"{name}",', f'"{name}":'
    texts = {path.stem: path.read_text("utf8") for path in FOLDER.glob("[!_]*.py")}
    return _declared([file for file, text in texts.items() if any(word in text for word in words)])


def _declared(files: list[str]) -> dict[str, Algorithm]:
    order = sorted(files, key=lambda file: (FIRST.index(file) if file in FIRST else 9, file))
    modules = [import_module(f"{__name__}.{file}").__name__ for file in order]
    return {name: each for module in modules for name, each in DECLARED[module].items()}


def find(name: str) -> Algorithm:
    """The algorithm called `name`, of simctl or of an installed package, which may have options:
    "ring:segments=4".

    Raises InputError with the nearest name, or with those of the collective it is.
    """
    listed, colon, options = name.partition(":")
    names = _first_files(listed)
    if listed not in names:
        names = algorithms()
    if listed not in names:
        names = every_algorithm()
    if listed not in names:
        raise InputError(_unknown(listed, names))
    return with_options(names[listed], options) if colon else names[listed]


def of_collective(name: str, known: Mapping[str, Algorithm] | None = None) -> list[Algorithm]:
    """The algorithms of the collective called `name`, in any spelling; by default also those of
    packages. Raises InputError with the nearest name if there is none."""
    plain, every = _plain(name), (every_algorithm() if known is None else known).values()
    computing = [algorithm for algorithm in every if _plain(algorithm.collective.name) == plain]
    if not computing:
        names = dict.fromkeys(algorithm.collective.name for algorithm in every)
        hint = nearest_name(name, names, f"there are {', '.join(names)}")
        raise InputError(f"no collective {name[:80]!r}: {hint}")
    return computing


def every_algorithm() -> dict[str, Algorithm]:
    """The algorithms of simctl and of installed packages, by name."""
    return {**algorithms(), **installed_algorithms()}


@cache
def installed_algorithms() -> dict[str, Algorithm]:
    """The algorithms that installed packages declare as entry points `simctl.algorithms`, by name.

    An entry point names an algorithm, or several in a list. Raises InputError if it names something
    else, cannot be imported, or has a name that is taken.
    """
    from importlib.metadata import entry_points  # slow, and only unknown names need it

    installed: dict[str, Algorithm] = {}
    for entry in sorted(entry_points(group="simctl.algorithms")):
        package = entry.dist.name if entry.dist is not None else "a package"
        place = f"{package}'s entry point {entry.name!r}"
        try:
            value = entry.load()
        except Exception as error:
            line = " ".join(str(error).split())[:200]
            raise InputError(f"{place}: {type(error).__name__}: {line}") from None
        several = list(value) if isinstance(value, list | tuple) else [value]
        if not several or not all(isinstance(each, Algorithm) for each in several):
            raise InputError(
                f"{place} is no algorithm: put @algorithm(COLLECTIVE) over its function"
            )
        for each in several:
            if each.name in installed or each.name in algorithms():
                raise InputError(
                    f"{place}: another algorithm is called {each.name!r} already: rename it"
                )
            installed[each.name] = replace(each, origin=place, recipe=(find, (each.name,)))
    return installed


def _unknown(name: str, names: dict[str, Algorithm]) -> str:
    quoted = f"{name[:80]!r}"
    plain = _plain(name)
    computing = [
        key for key, algorithm in names.items() if _plain(algorithm.collective.name) == plain
    ]
    if computing:
        several = f"one of {', '.join(computing)}" if len(computing) > 1 else computing[0]
        return f"{quoted} is a collective and no algorithm: choose {several}"
    if plain == "all":
        return f"no algorithm {quoted}: simctl sweep --collective all_reduce takes all of it"
    same = sorted(key for key in names if plain in key.split("_"))
    if same:
        return f"no algorithm {quoted}: choose one of {', '.join(same)}"
    return f"no algorithm {quoted}: {nearest_name(name, names, 'simctl list algos lists them')}"


def _plain(name: str) -> str:
    """One spelling for all spellings of a collective's name: "all-reduce", "AllReduce"."""
    return name.lower().replace("_", "").replace("-", "")


__all__ = ["Algorithm", "Collective", "algorithms", "every_algorithm", "find", "of_collective"]
