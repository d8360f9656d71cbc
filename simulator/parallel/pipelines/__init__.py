"""Orders of pipelines by name.

The package finds every file in it that declares `ORDERS`: a new order needs no entry anywhere else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import iter_modules

from simulator.parallel.pipelines.pipeline import Pipeline, PipelineOrder, check
from topologies.errors import InputError, nearest_name


@cache
def orders() -> dict[str, PipelineOrder]:
    """Every order by name. Pipelines of the last calls are remembered."""
    files = sorted(module.name for module in iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in files]
    declared = [order for module in modules for order in getattr(module, "ORDERS", ())]
    return {
        order.name: replace(order, build=lru_cache(maxsize=8)(order.build)) for order in declared
    }


def find(text: str) -> PipelineOrder:
    """The order for NAME or NAME:key=value,...; raises InputError with the nearest name if there is
    none.

    >>> pipeline = find("interleaved:chunks=3").build(devices=4, micro_batches=8)
    >>> pipeline.stages, len(pipeline)
    (12, 192)
    """
    name, colon, options = text.partition(":")
    if name not in orders():
        hint = nearest_name(name, orders(), f"there are {', '.join(orders())}")
        raise InputError(f"no pipeline {name[:80]!r}: {hint}")
    order = orders()[name]
    return order.with_options(options) if colon else order


__all__ = ["Pipeline", "PipelineOrder", "check", "find", "orders"]
