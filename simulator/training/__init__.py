"""Training strategies by name.

Every file of `PACKAGES` that declares `STRATEGIES` is found: a new strategy needs no entry anywhere
else. The files are imported when the caller first asks for a strategy.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from simulator.training.strategy import Strategy
from topologies.errors import InputError, nearest_name

PACKAGES = ("training", "parallel")
"""Strategies that write the graph of a plan are in the second one."""
FIRST = ("ddp", "data_parallel", "ssgd", "asgd")
"""Files listed before the others, which follow by name."""


@cache
def strategies() -> dict[str, type[Strategy]]:
    """Every strategy by name."""
    return {name: strategy for file in _files() for name, strategy in _declared(file).items()}


def _files() -> list[Path]:
    """The files that declare strategies, in the order of their list. Their text tells that: to
    import all files takes 0.1 s, which completion would wait for."""
    files = (file for name in PACKAGES for file in (Path(__file__).parents[1] / name).glob("*.py"))
    some = [file for file in files if "\nSTRATEGIES = " in file.read_text(encoding="utf-8")]
    return sorted(some, key=lambda file: ([*FIRST, file.stem].index(file.stem), file.stem))


def _declared(file: Path) -> dict[str, type[Strategy]]:
    module = import_module(f"simulator.{file.parent.name}.{file.stem}")
    return getattr(module, "STRATEGIES", {})


def find(name: str) -> type[Strategy]:
    """The strategy called `name`. Raises InputError with the nearest name if there is none."""
    stage = re.fullmatch(r"(?:zero|fsdp)[-_]?([0-3]?)", name.lower())
    if stage and name != "fsdp":
        plan = f"simctl plan zero={stage[1] or 3},micro=1 --model llama3_8b"
        raise InputError(f"no strategy {name!r}: take fsdp, or a plan of any stage, like {plan}")
    # Files are imported until one has the strategy, first the one that is called like it.
    for file in sorted(_files(), key=lambda file: file.stem != name):
        if strategy := _declared(file).get(name):
            return strategy
    hint = nearest_name(name, strategies(), f"there are {', '.join(strategies())}")
    raise InputError(f"no strategy {name[:80]!r}: {hint}")


__all__ = ["Strategy", "find", "strategies"]
