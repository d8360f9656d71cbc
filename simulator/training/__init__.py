"""Training strategies by name. A strategy's file is imported when it is first asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Protocol

from simulator.training.model import Model
from simulator.training.plan import Plan, Setting
from topologies.errors import InputError

FILES = {
    "ddp": ("ddp", "DDP"),
    "dp": ("data_parallel", "DataParallel"),
    "ssgd": ("ssgd", "SSGD"),
    "asgd": ("asgd", "ASGD"),
    "ssp": ("asgd", "SSP"),
    "local_sgd": ("local_sgd", "LocalSGD"),
}
"""The file of this package and the class in it, by name."""


class Strategy(Protocol):
    """A frozen dataclass whose fields are its options (see :func:`simulator.training.options.option`).

    It may have besides: `promise`, the collective of the gradients that a step is; `server_kind`, the kind of device
    that servers need; `usual_steps`, how many steps tell what a long run is like, if that is not one.
    """

    def servers(self, ranks: int) -> int:
        """Devices that are needed besides those of `ranks` workers."""

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""


def find(name: str) -> type[Strategy]:
    """The strategy called `name`. Raises InputError with the nearest name if there is none."""
    if name not in FILES:
        near = get_close_matches(name.lower(), FILES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"{name[:80]!r} is no strategy: {hint}there are {', '.join(FILES)}")
    file, strategy = FILES[name]
    found: type[Strategy] = getattr(import_module(f"simulator.training.{file}"), strategy)
    return found
