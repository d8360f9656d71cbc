"""The algorithms by name.

The package finds every file in it that declares `ALGORITHMS`: a new algorithm needs no entry
anywhere else. The files are imported when the caller first asks for an algorithm.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from simulator.collectives.algorithm_options import with_options
from simulator.collectives.collective import Algorithm, Collective
from topologies.errors import InputError, nearest_name

FIRST = ("ring", "rings", "gloo", "pairwise", "pairwise_sync")
"""Files listed before the others, which follow by name. The first algorithm of a collective is the
default for measurements of that collective."""


@cache
def algorithms() -> dict[str, Algorithm]:
    """Every algorithm of simctl by name."""
    files = sorted(
        (module.name for module in iter_modules(__path__)),
        key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name),
    )
    return {name: algorithm for file in files for name, algorithm in _declared(file).items()}


def _declared(file: str) -> dict[str, Algorithm]:
    """The algorithms of a file of this package."""
    module = import_module(f"{__name__}.{file}")
    return {algorithm.name: algorithm for algorithm in getattr(module, "ALGORITHMS", ())}


@cache
def _first_files(name: str) -> dict[str, Algorithm]:
    """The algorithms of the files that are called as `name` begins: they hold most algorithms, and
    to import all files takes a third of the time of a small command."""
    words = name.split("_")
    names = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
    files = [module.name for module in iter_modules(__path__) if module.name in names]
    return {name: algorithm for file in files for name, algorithm in _declared(file).items()}


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
    from simulator.collectives.installed import installed_algorithms

    return {**algorithms(), **installed_algorithms()}


def _unknown(name: str, names: dict[str, Algorithm]) -> str:
    quoted = f"{name[:80]!r}"
    plain = _plain(name)
    computing = [
        key for key, algorithm in names.items() if _plain(algorithm.collective.name) == plain
    ]
    if len(computing) > 1:
        return f"{quoted} is a collective and no algorithm: choose one of {', '.join(computing)}"
    if computing:
        return f"{quoted} is a collective and no algorithm: choose {computing[0]}"
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
