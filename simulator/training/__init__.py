"""Training strategies by name.

The package finds every file in it that declares `STRATEGIES`: a new strategy needs no entry
anywhere else. The files are imported when the caller first asks for a strategy.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from simulator.training.strategy import Strategy
from topologies.errors import InputError, nearest_name

FIRST = ("ddp", "data_parallel", "ssgd", "asgd")
"""Files listed before the others, which follow by name."""


@cache
def strategies() -> dict[str, type[Strategy]]:
    """Every strategy by name."""
    return {name: strategy for file in _files() for name, strategy in _declared(file).items()}


def _files() -> list[str]:
    """The files of this package that declare strategies, in the order of their list. Their text
    tells that: to import all files takes 0.1 s, which completion would wait for."""
    files = (file for folder in __path__ for file in Path(folder).glob("*.py"))
    names = (file.stem for file in files if "\nSTRATEGIES = " in file.read_text(encoding="utf-8"))
    return sorted(names, key=lambda name: ([*FIRST, name].index(name), name))


def _declared(file: str) -> dict[str, type[Strategy]]:
    """The strategies of a file of this package."""
    return getattr(import_module(f"{__name__}.{file}"), "STRATEGIES", {})


def find(name: str) -> type[Strategy]:
    """The strategy called `name`. Raises InputError with the nearest name if there is none."""
    if stage := re.fullmatch(r"(?:zero|fsdp)[-_]?([0-3]?)", name.lower()):
        plan = f"--model llama3_8b --plan zero={stage[1] or 3},micro=1"
        raise InputError(f"{name!r} shards a model, which is a plan: write it like {plan}")
    # Files are imported until one has the strategy, first the one that is called like it.
    for file in sorted(_files(), key=lambda file: file != name):
        if strategy := _declared(file).get(name):
            return strategy
    hint = nearest_name(name, strategies(), f"there are {', '.join(strategies())}")
    raise InputError(f"no strategy {name[:80]!r}: {hint}")


__all__ = ["Strategy", "find", "strategies"]
