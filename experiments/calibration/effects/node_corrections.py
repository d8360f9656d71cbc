"""Numbers of nodes that were measured in another allocation of the machine."""

import numpy as np

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import Data, Effect, Parameter, Values
from simulator.effects.crowded_links import NodeCorrection, alike
from simulator.profile import Profile

WEIGHT = 0.25
"""The weight of a correction's start: it has none."""


def node_corrections(data: Data) -> Effect:
    """A factor on α and one on 1/β between nodes for each number of nodes.

    Near numbers of nodes have similar factors. So the fit counts only the difference to the factors
    of fewer nodes: its matrix is the root of the likeness of numbers of nodes, for α and for 1/β.
    """
    if not data.crowding:
        return Effect(of_machine=True)
    counts = np.unique(data.points.nodes)
    names = [[f"network {what} at {count} nodes" for count in counts] for what in ("α", "1/β")]
    parameters = tuple(Parameter(name, 0.0, "power", WEIGHT) for column in names for name in column)

    def write(profile: Profile, values: Values) -> Profile:
        corrections = tuple(
            NodeCorrection(int(count), values[latency], values[bandwidth])
            for count, latency, bandwidth in zip(counts, *names, strict=True)
        )
        return crowded(profile, data, corrections=corrections)

    root = np.kron(np.eye(2), np.linalg.cholesky(alike(counts, counts)))
    return Effect(parameters, write, np.asarray(root), of_machine=True)
