"""The parts of every effect of a library: parameters to fit, and a method that writes them into a
profile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from simulator.profile import Profile
from topologies.topology import Floats

if TYPE_CHECKING:
    from experiments.calibration.known_paths import KnownPaths
    from experiments.calibration.libraries import Library
    from experiments.calibration.observations import Points

SURE, LIKELY, LOOSE = 1.0, 0.2, 0.1
"""Weights of a start. A parameter that is off by a factor e costs as much as so many residuals of a
factor e."""


@dataclass(frozen=True)
class Parameter:
    """A number that is fitted: its logarithm, or the number itself if the unit is "power"."""

    name: str
    """The name, which no other parameter has."""
    start: float
    """The value where the fit starts."""
    unit: str
    """The unit of the value: "s", "s/B" or "power"."""
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
class Data:
    """The measurements that effects are fitted to."""

    points: Points
    """The measured points."""
    library: Library
    """The library that made them."""
    paths: KnownPaths
    """The simulated paths of their algorithms."""
    gaps: tuple[tuple[str, str], ...]
    """The protocols and kinds of link that have a g. The others have 0."""
    crowding: bool
    """Whether links between nodes may depend on the number of nodes."""
    most: float
    """The most nodes among the points to fit."""

    @cached_property
    def typical(self) -> float:
        """The number of nodes of a typical curve."""
        size = np.log(self.points.nodes)
        return float(np.exp(size[np.unique(self.points.curve, return_index=True)[1]].mean()))


class Effect(ABC):
    """A physical effect, made for given data. It has no parameters where the data do not show
    it."""

    parameters: tuple[Parameter, ...] = ()
    """The parameters to fit."""

    @abstractmethod
    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The profile with this effect, by the values of all parameters of the library. Effects
        write in the order of the library."""

    def mixing(self) -> Floats:
        """The matrix from what the fit counts to the parameters, shape (parameters, parameters)."""
        return np.eye(len(self.parameters))
