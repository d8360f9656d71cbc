"""Learns the model of a kind of kernel from measured ones, and its errors at shapes left out.

Values are fitted by least squares of the logarithms, with a loss that hardly counts outliers and
the spreads of the values as priors. What the formula leaves is a Gaussian process (Rasmussen and
Williams, Gaussian Processes for Machine Learning, chapter 2), read at the nodes of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import least_squares

from experiments.models.kernel_times.kernel_model import (
    EIGHTY,
    Chip,
    KernelModel,
    Key,
    Kind,
    Sizes,
    Value,
    packed,
)
from topologies.columns import plain_rows
from topologies.topology import Flags, Floats, Longs

FOLDS = 5
NOISE = 0.04
"""The spread of a measured kernel about a smooth time, in the logarithm."""
DEVICES = 0.2
"""The same of kernels of several families of devices."""
FAMILY_KERNELS = 500
"""About so many kernels stand for a family of devices among others."""
LEAST_SPREAD = 0.2
"""The least spread of a value among devices and engines, in the logarithm."""
NEAR = 1e-4
"""A fit ends when a step lowers the sum of squares by less than this share."""
PRIOR = 0.1
"""The error of a kernel that counts as much as a value one spread from its usual."""


class Measured(NamedTuple):
    """Measured kernels of a device, precision and engine."""

    chip: Chip
    """The chip on which they ran."""
    sizes: Sizes
    seconds: Floats
    shapes: Longs
    """Kernels with the same number are left out together."""

    def at(self, chosen: Flags) -> Measured:
        """The chosen kernels."""
        sizes = {name: size[chosen] for name, size in self.sizes.items()}
        return Measured(self.chip, sizes, self.seconds[chosen], self.shapes[chosen])


class Smoothness(NamedTuple):
    """How the rest of a formula changes: Matern's covariance with nu = 3/2."""

    spread: float
    lengths: tuple[float, ...]
    """Along each coordinate."""
    limit: float = np.inf
    """A rest counts as this many times their median if it is larger."""
    noise: float = NOISE

    def covariance(self, first: Floats, second: Floats) -> Floats:
        """Of the rest at points, shape (first, second)."""
        steps = (first[:, None] - second[None]) / self.lengths
        distance = np.sqrt(3 * (steps**2).sum(axis=2))
        return np.asarray(self.spread**2 * (1 + distance) * np.exp(-distance))


Groups = Mapping[Key, Measured]


def fit(
    kind: Kind,
    groups: Sequence[Measured],
    smoothness: Smoothness,
    priors: Mapping[str, Value],
    start: KernelModel | None = None,
) -> KernelModel:
    """The model of measured kernels on their chips by priors of the values, from the values of
    `start` if there is one. Its chip is the first of them, and its spread is 0."""
    chosen = priors.values()
    usual = np.log([value.usual for value in chosen])
    spread = np.array([value.spread for value in chosen])
    times = np.log(np.concatenate([measured.seconds for measured in groups]))

    def formula(inner: Floats) -> Floats:
        values = dict(zip(kind.values, np.exp(inner), strict=True))
        each = [kind.formula(group.sizes, values, group.chip) for group in groups]
        return np.log(np.concatenate(each))

    def errors(inner: Floats) -> Floats:
        bounded = np.arctan(2 * (formula(inner) - times)) / 2
        return np.concatenate([bounded, PRIOR * (inner - usual) / spread])

    first = np.log([*start.values.values()]) if start else usual
    inner = least_squares(
        errors, first, diff_step=np.full(len(usual), 1e-3), ftol=NEAR, max_nfev=40
    ).x
    values = dict(zip(kind.values, np.exp(inner).tolist(), strict=True))
    points = np.concatenate([kind.coordinates(measured.sizes) for measured in groups])
    grid = rest(kind, points, times - formula(inner), smoothness)
    return KernelModel(kind, groups[0].chip, values, 0.0, packed(grid), len(times))


def rest(kind: Kind, points: Floats, measured: Floats, smoothness: Smoothness) -> Floats:
    """The expected rest at the nodes of the grid, by the `measured` rest of kernels at `points`."""
    nodes = np.array([*product(*kind.nodes)], float)
    matrix = smoothness.covariance(points, points) + smoothness.noise**2 * np.eye(len(points))
    most = smoothness.limit * float(np.median(np.abs(measured)))
    weights = cho_solve(cho_factor(matrix), np.clip(measured, -most, most))
    shape = [len(along) for along in kind.nodes]
    return np.asarray(smoothness.covariance(nodes, points) @ weights).reshape(shape)


def shared_fit(kind: Kind, families: Sequence[Groups], smoothness: Smoothness) -> KernelModel:
    """The model that all devices share, by the same number of kernels of each family."""
    random, chosen = np.random.default_rng(0), []
    for family in families:
        share = FAMILY_KERNELS / sum(len(measured.seconds) for measured in family.values())
        for measured in family.values():
            chosen.append(measured.at(random.random(len(measured.seconds)) < share))
    return fit(kind, chosen, smoothness._replace(noise=DEVICES), kind.values)


def population(members: Sequence[KernelModel]) -> dict[str, Value]:
    """What each value is among models, and its spread."""
    logs = np.log([[*member.values.values()] for member in members])
    usual, spread = np.exp(np.median(logs, axis=0)), np.maximum(logs.std(axis=0), LEAST_SPREAD)
    pairs = plain_rows(usual, spread)
    return {name: Value(*pair) for name, pair in zip(members[0].values, pairs, strict=True)}


def learn(
    kind: Kind,
    groups: Groups,
    smoothness: Smoothness,
    start: Mapping[Key, KernelModel] | None = None,
) -> dict[Key, KernelModel]:
    """The models of measured kernels, from those of `start` if there are some. The values of a
    precision are priors for each other."""
    start = start or {}
    first = {
        key: fit(kind, [group], smoothness, kind.values, start.get(key))
        for key, group in groups.items()
    }
    learnt = {}
    for key, group in groups.items():
        alike = [model for each, model in first.items() if each.precision == key.precision]
        learnt[key] = fit(kind, [group], smoothness, population(alike), first[key])
    return learnt


def left_out(
    kind: Kind, groups: Groups, smoothness: Smoothness, whole: Mapping[Key, KernelModel]
) -> dict[Key, Floats]:
    """The logarithm of predicted over measured time of each kernel, by models of the shapes of
    other folds. `whole`: where their fits start."""
    numbers = np.unique(np.concatenate([measured.shapes for measured in groups.values()]))
    order = np.random.default_rng(0).permutation(len(numbers)) % FOLDS
    folds = {key: order[np.searchsorted(numbers, each.shapes)] for key, each in groups.items()}
    errors = {key: np.empty(len(each.seconds)) for key, each in groups.items()}
    for fold in range(FOLDS):
        rest = {key: each.at(folds[key] != fold) for key, each in groups.items()}
        for key, model in learn(kind, rest, smoothness, whole).items():
            test = groups[key].at(folds[key] == fold)
            errors[key][folds[key] == fold] = np.log(model.seconds(test.sizes) / test.seconds)
    return errors


def spread_of(errors: Floats) -> float:
    """The standard deviation of a normal distribution with as many errors within 80%."""
    return float(np.quantile(np.abs(errors), 0.8) / EIGHTY)
