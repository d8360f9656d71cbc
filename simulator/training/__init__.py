"""Training strategies by name. A strategy's file is imported when it is first asked for."""

from __future__ import annotations

import re
from importlib import import_module

from simulator.training.strategy import Strategy
from topologies.errors import InputError, nearest_name

FILES = {
    "ddp": ("ddp", "DDP"),
    "dp": ("data_parallel", "DataParallel"),
    "ssgd": ("ssgd", "SSGD"),
    "asgd": ("asgd", "ASGD"),
    "ssp": ("asgd", "SSP"),
    "local_sgd": ("local_sgd", "LocalSGD"),
}
"""The file of this package and the class in it, by name."""


def find(name: str) -> type[Strategy]:
    """The strategy called `name`. Raises InputError with the nearest name if there is none."""
    if stage := re.fullmatch(r"(?:zero|fsdp)[-_]?([0-3]?)", name.lower()):
        plan = f"--model llama3_8b --plan zero={stage[1] or 3},micro=1"
        raise InputError(f"{name!r} shards a model, which is a plan: write it like {plan}")
    if name not in FILES:
        hint = nearest_name(name, FILES, f"there are {', '.join(FILES)}")
        raise InputError(f"no strategy {name[:80]!r}: {hint}")
    file, strategy = FILES[name]
    result: type[Strategy] = getattr(import_module(f"simulator.training.{file}"), strategy)
    return result


__all__ = ["FILES", "Strategy", "find"]
