"""The form of every effect of a library: parameters to fit, and how they change a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, log

import numpy as np

from experiments.calibration.observations import FitCurve, FitPoints
from simulator.effects.jobs import Jobs
from simulator.profile import Profile
from topologies.topology import Floats

SURE, LIKELY, LOOSE = 1.0, 0.2, 0.1
"""Weights of a start. A parameter that is off by a factor e costs as much as so many residuals of a
factor e."""

Values = Mapping[str, float]
"""The parameters of a library by name."""


@dataclass(frozen=True)
class Parameter:
    """A number that is fitted: its logarithm, or the number itself if the unit is "power"."""

    name: str
    start: float
    """The value where the fit starts."""
    unit: str
    weight: float
    """The weight of the start as data."""
    kind: str = ""
    """The kind of link that the number is about. Empty: all kinds, or no link."""
    specified: bool = False
    """Whether a machine's specification says about what the number is: 1/β of its links, or how
    ranks share NICs."""
    reached: float = 1.0
    """The usual share of a specified β."""

    @property
    def inner(self) -> float:
        """The start as the fit counts it."""
        return self.start if self.unit == "power" else float(np.log(self.start))

    @property
    def rest(self) -> float:
        """The start as the fit counts it, without what a machine's specification gives."""
        return -log(self.reached) if self.specified else self.inner

    def outer(self, inner: float) -> float:
        """The value for a number `inner` of the fit."""
        return inner if self.unit == "power" else exp(min(max(inner, -300.0), 300.0))

    def outers(self, inners: Floats) -> Floats:
        """As :meth:`outer`, for several numbers."""
        return inners if self.unit == "power" else np.exp(np.clip(inners, -300.0, 300.0))


@dataclass(frozen=True)
class Prior:
    """Where the fit of a protocol starts. Keys are kinds of link, or "node" and "network"."""

    name: str
    latency: Mapping[str, float]
    """α of one link, in seconds."""
    slowness: Mapping[str, float]
    """1/β, in s/B."""
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The factors on α in single algorithms."""
    one_rate: bool = False
    """Whether 1/β is one number for all links, as a single warp's stores limit it."""
    kind_of: str = ""
    """The protocol that this one is a form of."""
    share: float = 1.0
    """The share of a link's β that the protocol's flags leave."""
    longest: Mapping[str, float] = field(default_factory=dict)
    """The bytes of its longest message, by the library's name in words, in lower case."""
    reached: Mapping[str, float] = field(default_factory=dict)
    """The usual share of a specified β. Empty: the links of a machine do not limit the protocol."""
    weight: float = LOOSE
    """The weight of the start of 1/β."""
    gap: Mapping[str, float] = field(default_factory=dict)
    """g of one link, in seconds. The others have none, unless data identify it."""

    def rate(self, kind: str) -> str:
        """The name of the parameter that is 1/β of links of `kind`."""
        return f"{self.name} 1/β" if self.one_rate else f"{self.name} {kind} 1/β"

    def most(self, libraries: Iterable[str]) -> float:
        """The bytes of its longest message in all `libraries`, names and versions in words."""
        names = [library.lower() for library in libraries]
        limits = (
            limit for words, limit in self.longest.items() if all(words in name for name in names)
        )
        return min(limits, default=inf)


@dataclass(frozen=True)
class Data:
    """The measurements that effects are fitted to."""

    points: FitPoints
    priors: tuple[Prior, ...]
    algorithms: tuple[str, ...]
    """The algorithms that may have run, and all others that the library may choose."""
    kinds: tuple[str, ...]
    """The kinds of link on their way."""
    figures: Mapping[str, tuple[float, float]]
    """α and 1/β of each kind, by the machine."""
    longest: tuple[float, ...]
    jobs: Jobs
    exchanges: Callable[[FitCurve, float], bool]
    """Whether a curve shows exchanges of messages longer than so many bytes."""
    gaps: tuple[tuple[str, str], ...]
    """The protocols and kinds of link that have a g. The others have 0."""
    crowding: bool
    """Whether links between nodes may depend on the number of nodes."""
    most: float

    @property
    def curves(self) -> tuple[FitCurve, ...]:
        """The measured curves."""
        return self.points.curves

    @cached_property
    def typical(self) -> float:
        """The number of nodes of a typical curve."""
        size = np.log(self.points.nodes)
        return float(np.exp(size[np.unique(self.points.curve, return_index=True)[1]].mean()))


@dataclass(frozen=True, eq=False)
class Effect:
    """A physical effect on some data. It has no parameters where the data do not show it."""

    parameters: tuple[Parameter, ...] = ()
    write: Callable[[Profile, Values], Profile] = lambda profile, values: profile
    """The profile with the effect, by the values of all parameters of the library. Effects write in
    the order of the library."""
    root: Floats | None = None
    """The matrix from what the fit counts to the parameters, shape (parameters, parameters). None:
    they are the same."""
    of_machine: bool = False
    """Whether the parameters are of one machine alone, as those of an allocation of it."""

    def mixing(self) -> Floats:
        """The matrix from what the fit counts to the parameters, shape (parameters, parameters)."""
        return np.eye(len(self.parameters)) if self.root is None else self.root
