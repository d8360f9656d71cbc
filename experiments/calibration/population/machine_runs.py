"""The runs of one set-up of a machine, and what they say of its parameters near some values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.protocols import reach
from experiments.calibration.fit import SCALE
from experiments.calibration.library_model import Model
from experiments.calibration.population.specification import Specification, kernels, transport
from experiments.calibration.slopes import slopes
from topologies.topology import Floats

INDEPENDENT = 0.2
"""The share of points that count as independent: neighbouring sizes share their errors."""


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


class Evidence(NamedTuple):
    """What runs say of parameters: the logarithm of their likelihood, to the second order."""

    information: Floats
    """Minus its second derivative, shape (parameters, parameters)."""
    vector: Floats
    """The information times the best parameters, shape (parameters,)."""


class Runs:
    """Measured runs of one set-up of a machine.

    A parameter is an offset, which the machine's specification gives, plus a rest. Populations are
    of the rests.
    """

    def __init__(self, model: Model, specification: Specification) -> None:
        self.model, self.specification = model, specification
        self.machine = specification.machine
        self.transport = transport(model.library, specification.interconnect)
        self.names = shared_names(model)
        self.offset = offsets(model, specification)

    def evidence(self, inner: Floats) -> Evidence:
        """What the runs say of the rests of the parameters near `inner`."""
        model, every = self.model, np.arange(len(self.model.points))
        choice = model.choice(inner, every, model.table(every))
        misfit = np.log(choice.seconds) - np.log(model.points.seconds)
        design = slopes(model, inner, every, choice)
        weight = INDEPENDENT / SCALE**2 / np.sqrt(1 + (misfit / SCALE) ** 2)
        information = design.T @ (weight[:, None] * design)
        vector = information @ (inner - self.offset) - design.T @ (weight * misfit)
        return Evidence(information, vector)


def at_specification(model: Model, specification: Specification) -> Model:
    """The model whose fit starts at what a machine's specification says of its links."""
    rest = np.array([parameter.rest for parameter in model.parameters])
    return model.starting(offsets(model, specification) + rest, model.weight)


def offsets(model: Model, specification: Specification) -> Floats:
    """The parts of a model's parameters that a specification gives. If nobody specifies β of some
    links, it is as usual for the library."""
    given = [specification.offset(one, model.points.width) for one in model.parameters]
    return np.array(
        [
            parameter.inner - parameter.rest
            if offset is None
            else offset + kernels(model.library, specification.interconnect, parameter)
            for parameter, offset in zip(model.parameters, given, strict=True)
        ]
    )
