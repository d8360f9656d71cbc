"""What a fit has to find: parameters by name, where each starts, and how firmly it is held
there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import exp

import numpy as np

from experiments.calibration.exploration import NEGLIGIBLE
from experiments.calibration.libraries import Library, Prior
from experiments.calibration.table import Known, reach

SHORT = 0.1
"""Where a g starts, in units of α."""
SURE, LIKELY, LOOSE = 1.0, 0.2, 0.1
"""Weights of a prior: how many residuals of a factor e count as much as a parameter that is off by
that factor."""


SESSION = 0.25
"""The weight of what slows one number of nodes more than others, as another allocation of the
machine does."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a fit: its name, where it starts, in what it is measured, and the weight of
    the start. It is fitted as a logarithm, or as it is where `unit` is "power"."""

    name: str
    start: float
    unit: str
    weight: float

    @property
    def inner(self) -> float:
        """The start, as the fit counts."""
        return self.start if self.unit == "power" else float(np.log(self.start))

    def outer(self, inner: float) -> float:
        """The value that the fit counts as `inner`."""
        return inner if self.unit == "power" else exp(min(max(inner, -300.0), 300.0))


def parameters(
    library: Library,
    known: Known,
    gaps: Collection[tuple[str, str]],
    crowding: bool,
    sessions: Iterable[int],
) -> Iterator[Parameter]:
    """Those of a library on a machine with the kinds of links of `known`: with a g for `gaps`, with
    what the number of nodes does if `crowding`, and with what each number of nodes in `sessions`
    has of its own."""
    yield Parameter("launch", library.launch, "s", LIKELY)
    for prior in library.protocols:
        yield from _of_protocol(prior, library, known, gaps)
    if known.pairs:
        yield Parameter("launch of sends", 0.0, "power", LIKELY)
        yield Parameter("α of sends", 0.0, "power", LIKELY)
        for kind in known.kinds:
            yield Parameter(f"{kind} 1/β of sends", 0.0, "power", LIKELY)
    if library.memory:
        yield from _of_memory(known)
    for what, count in product(("α", "1/β"), sessions):
        yield Parameter(f"network {what} at {count} nodes", 0.0, "power", SESSION)
    if crowding:
        yield Parameter("network α by nodes", 0.0, "power", SURE)
        yield Parameter("network 1/β by nodes", 0.0, "power", SURE)
    if known.wide:
        yield Parameter("network 1/β by ranks a node", 0.0, "power", LIKELY)


def _of_protocol(
    prior: Prior, library: Library, known: Known, gaps: Collection[tuple[str, str]]
) -> Iterator[Parameter]:
    starts = {kind: _start(prior, library, known, kind) for kind in known.kinds}
    for kind, (latency, _) in starts.items():
        yield Parameter(f"{prior.name} {kind} α", latency, "s", LIKELY if library.paced else LOOSE)
        if (prior.name, kind) in gaps:
            yield Parameter(f"{prior.name} {kind} g", latency * SHORT, "s", LIKELY)
    for name, slowness in {
        prior.rate(kind): slowness for kind, (_, slowness) in starts.items()
    }.items():
        yield Parameter(name, slowness, "s/B", LOOSE)
    if prior.rings and known.rings:
        yield Parameter(f"{prior.name} α in rings", 0.0, "power", LIKELY)


def _of_memory(known: Known) -> Iterator[Parameter]:
    yield Parameter("γ", 1 / 8e9, "s/B", LOOSE)
    yield Parameter("γ beyond cache", 1 / 5e9, "s/B", LOOSE)
    yield Parameter("copy", 1 / 15e9, "s/B", LIKELY)
    yield Parameter("copy beyond cache", 1 / 8e9, "s/B", LIKELY)
    yield Parameter("fresh memory", 1 / 4e9, "s/B", LIKELY)
    if known.several:
        yield Parameter("memory given back", 1 / 4e9, "s/B", LIKELY)
    if known.joins:
        yield Parameter("memory registered again", 1 / 40e9, "s/B", LIKELY)
    if known.scratch:
        yield Parameter("memory pinned", 1e-4, "s", LIKELY)
    if known.long:
        yield Parameter("long exchanges", 1 / 40e9, "s/B", LIKELY)


def _start(prior: Prior, library: Library, known: Known, kind: str) -> tuple[float, float]:
    """Where α and 1/β of a kind of link start: the prior's, or in that proportion what the machine
    says."""
    if kind in prior.latency:
        return prior.latency[kind], prior.slowness[kind]
    latency, slowness = known.figures[kind]
    longer = prior.latency[reach(kind)] / library.protocols[0].latency[reach(kind)]
    return max(NEGLIGIBLE, latency * longer), max(slowness, prior.slowness["node"])
