"""Parameters of a library over many machines: their mean, and how far machines are from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import log, nan
from typing import Any, NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.link_effects import reach
from experiments.calibration.fit import directions
from experiments.calibration.library_model import Model
from experiments.calibration.standing import POPULATION
from topologies.readers.plain_files import load_yaml
from topologies.topology import Floats

ALONE = 0.3
"""The spread of parameters that are of a single machine."""
ENOUGH = 3
"""A transport that so many machines have has a population."""
SPECIFIED = "times specified"
"""The unit of 1/β in units of what the machine's specification says."""


class Member(NamedTuple):
    """A parameter of a population, as a fit counts it: see `Parameter`."""

    unit: str
    """The unit of its value: "s", "s/B", "power" or SPECIFIED."""
    start: float
    """The rest of the parameter in the library's own model, as the fit counts it."""
    mean: float
    spread: float
    machines: float
    """The number of machines whose runs depend on it."""


class Spread(NamedTuple):
    """The rules of intervals on a machine that nobody has measured. They were learnt from machines
    that were left out."""

    machine: float
    """What all points of the machine share."""
    between: float
    """What jobs over several nodes have besides. Its variance grows with the share of the time that
    is no bytes on links: GiB are far surer than middle sizes."""
    software: float
    """What the part of the time that is no bytes on links has besides."""
    parameters: float
    """The factor on what the differences between machines contribute."""


@dataclass(frozen=True, eq=False)
class Population:
    """The parameters of a library by their shared name."""

    library: str
    members: Mapping[str, Member]
    machines: tuple[str, ...]
    correlations: Floats
    """How parameters go together over machines, shape (parameters, parameters)."""
    error: float = nan
    """The median |ln(predicted / measured)| of machines that were left out of a population."""
    intervals: Spread | None = None
    """The rules of intervals. None if nobody learnt them."""
    transports: Mapping[str, Population] = field(default_factory=dict)
    """The populations of machines whose network has a transport: see `specification.transport`."""

    def over(self, transport: str) -> Population:
        """That of a transport, or of all machines if too few have it. The rules of intervals are
        the same."""
        level = self.transports.get(transport, self)
        return replace(level, error=self.error, intervals=self.intervals)

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation over machines of each parameter, as the fit counts it."""
        return {name: member.spread for name, member in self.members.items()}

    def moves(self, names: Sequence[str]) -> Floats:
        """Differences of machines from the mean: one standard deviation along each of several
        independent directions, in the parameters of these names, shape (directions, names). A name
        that the population does not have does not move."""
        spread = np.array(list(self.spreads.values()))
        whole = directions(self.correlations * np.outer(spread, spread))
        place = {name: k for k, name in enumerate(self.members)}
        columns = np.array([place.get(name, -1) for name in names], dtype=np.int64)
        return np.where(columns >= 0, whole[:, columns], 0.0)

    def covariance_of(self, names: Sequence[str]) -> Floats:
        """The covariance of machines in the parameters of these names, shape (names, names). Those
        that the population does not have are of a single machine, and independent."""
        moves = self.moves(names)
        alone = [0.0 if name in self.members else ALONE**2 for name in names]
        return np.asarray(moves.T @ moves + np.diag(alone))

    def mean(
        self, parameters: Sequence[Parameter], names: Sequence[str], offsets: Floats
    ) -> Floats:
        """The mean of parameters over machines, by their names here, shape (parameters,): a rest
        plus an offset. A parameter without such a name has its start."""
        return np.array(
            [
                self.members[name].mean + offset if name in self.members else parameter.inner
                for parameter, name, offset in zip(parameters, names, offsets, strict=True)
            ]
        )


def shared_name(parameter: Parameter) -> str:
    """The name of a parameter in a population: kinds of link count as "node" or "network".

    >>> shared_name(Parameter("LL nvlink α", 1e-6, "s", 1.0, "nvlink"))
    'LL node α'
    """
    words = parameter.name.split(" ")
    return " ".join(reach(word) if word == parameter.kind else word for word in words)


def shared_names(model: Model) -> tuple[str, ...]:
    """The names of a model's parameters in a population. Those of a single machine have no name."""
    names = (
        "" if effect.of_machine else shared_name(parameter)
        for effect in model.effects
        for parameter in effect.parameters
    )
    return tuple(names)


@cache
def population_of(library: str) -> Population | None:
    """The population of a library that ships with simctl; None if no machine was measured."""
    file = POPULATION / f"{library.lower()}.yaml"
    return parse(file.read_text(encoding="utf-8"), file.name) if file.is_file() else None


def parse(text: str, name: str) -> Population:
    """The population in the text of the YAML file `name` that `experiments.studies.populations`
    wrote."""
    content: Any = load_yaml(text, name)
    library, rules = content["library"], content.get("intervals")
    return replace(
        _level(library, content),
        error=content["error"],
        intervals=rules and Spread(**rules),
        transports={
            key: _level(library, level) for key, level in content.get("transports", {}).items()
        },
    )


def _level(library: str, part: Mapping[str, Any]) -> Population:
    """The population of some machines. The correlations of a parameter are those with the
    parameters before it; those that are left out are 0."""
    members = {key: _member(Member(**row)) for key, row in part["parameters"].items()}
    matrix = np.eye(len(members))
    for k, key in enumerate(members):
        row = part.get("correlations", {}).get(key, [])
        matrix[k, : len(row)] = matrix[: len(row), k] = row
    return Population(library, members, tuple(part["machines"]), matrix)


def _member(values: Member) -> Member:
    if values.unit == "power":
        return values
    return values._replace(start=log(values.start), mean=log(values.mean))
