"""The time of a kind of kernel on a device: a formula, a grid of what it leaves, and a spread."""

from __future__ import annotations

import csv
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.shipped_tables import rows_of
from topologies.topology import Floats

STEP = 0.01
"""A grid holds whole multiples of it, from -127 to 127: times within a factor of 3.6."""
EIGHTY = 1.2816
"""80% of a normal distribution are within so many standard deviations."""
Sizes = Mapping[str, Floats]
"""Sizes of kernels by their names, each of shape (kernels,)."""


class Chip(NamedTuple):
    """What a device can do."""

    flops: float
    """FLOP/s of the multiplications of the kernel, dense."""
    bandwidth: float
    """Bytes/s of its memory."""
    multiprocessors: float
    width: float
    """Bytes of an element that is multiplied."""


class Value(NamedTuple):
    """A value of a formula, positive."""

    usual: float
    spread: float
    """Of its logarithm, before anything is measured."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of kernel. :func:`kind_of` makes it."""

    name: str
    """That of its table, without the ending."""
    values: Mapping[str, Value]
    formula: Callable[[Sizes, Mapping[str, float], Chip], Floats]
    """Seconds of kernels, by their sizes, the values and the chip."""
    axes: Callable[[Sizes], Sequence[Floats]]
    """What the axes of the grid are logarithms of to the base 2, each of shape (kernels,)."""
    nodes: tuple[tuple[float, ...], ...]
    """The nodes of the grid along each axis."""

    @property
    def table(self) -> Path:
        """The file of what is learnt."""
        return Path(__file__).with_name(f"{self.name}.csv")

    def coordinates(self, sizes: Sizes) -> Floats:
        """Where sizes are in the grid, shape (kernels, axes)."""
        return np.log2(np.stack(self.axes(sizes), axis=1))


_table = cache(rows_of)


def kind_of(
    name: str,
    formula: Callable[[Sizes, Mapping[str, float], Chip], Floats],
    axes: Callable[[Sizes], Sequence[Floats]],
) -> Kind:
    """The kind of this name, with its values of `values.csv`, which says what each means, and the
    axes of its grid of `grids.csv`."""
    values, grids = (
        [row for row in _table(Path(__file__).with_name(file)) if row["kind"] == name]
        for file in ("values.csv", "grids.csv")
    )
    return Kind(
        name,
        {row["name"]: Value(float(row["usual"]), float(row["spread"])) for row in values},
        formula,
        axes,
        tuple(tuple(map(float, row["nodes"].split())) for row in grids),
    )


class Key(NamedTuple):
    """What a line of a table is about."""

    device: str
    precision: str
    engine: str


class Span(NamedTuple):
    """A value, and the ends of its interval."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class KernelModel:
    """The times of a kind of kernel on a chip."""

    kind: Kind
    chip: Chip
    values: Mapping[str, float]
    spread: float
    """The standard deviation of the logarithm of the time, at shapes that were left out."""
    rest: str = ""
    """The grid, as :func:`packed` writes it; empty: zeros."""
    rows: int = 0
    """Measured kernels behind it."""

    @cached_property
    def grid(self) -> Floats:
        """The logarithm of measured time over formula at each node."""
        shape = [len(nodes) for nodes in self.kind.nodes]
        if not self.rest:
            return np.zeros(shape)
        steps = np.frombuffer(zlib.decompress(b64decode(self.rest)), np.int8)
        return STEP * steps.reshape(shape).astype(float)

    def seconds(self, sizes: Sizes) -> Floats:
        """The expected seconds of kernels, shape (kernels,)."""
        rest = interpolated(self.grid, self.kind.nodes, self.kind.coordinates(sizes))
        return self.kind.formula(sizes, self.values, self.chip) * np.exp(rest)

    def of(self, **sizes: float) -> Span:
        """The seconds of the kernel with these sizes: 80% of such kernels are in the interval."""
        arrays = {name: np.array([float(size)]) for name, size in sizes.items()}
        seconds, factor = float(self.seconds(arrays)[0]), float(np.exp(EIGHTY * self.spread))
        return Span(seconds, seconds / factor, seconds * factor)


def norm(power: float, *parts: Floats | float) -> Floats:
    """The p-norm of seconds that overlap: their sum with a power of 1, the longest with a large
    one."""
    return np.asarray(sum(part**power for part in parts) ** (1 / power))


def interpolated(grid: Floats, nodes: Sequence[Sequence[float]], points: Floats) -> Floats:
    """The values of a grid at `points`, shape (points, axes): linear between nodes, and constant
    beyond the outermost ones."""
    each = zip(points.T, nodes, strict=True)
    places = np.stack([np.interp(axis, along, np.arange(len(along))) for axis, along in each], 1)
    low = np.minimum(places.astype(int), np.subtract(grid.shape, 2))
    share, corners = (places - low)[:, None], np.array([*product((0, 1), repeat=len(nodes))])
    weights = np.where(corners, share, 1 - share).prod(axis=2)
    near = grid[tuple(np.moveaxis(low[:, None] + corners, 2, 0))]
    return np.asarray((weights * near).sum(axis=1))


def packed(grid: Floats) -> str:
    """A grid as text."""
    steps = np.clip(np.rint(grid / STEP), -127, 127).astype(np.int8)
    return b64encode(zlib.compress(steps.tobytes(), 9)).decode()


def write(kind: Kind, models: Mapping[Key, KernelModel]) -> None:
    """Write the table of a kind."""
    with kind.table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        heading = [*Key._fields, *Chip._fields, *kind.values, "spread", "rows", "rest"]
        writer.writerow(heading)
        for key, model in models.items():
            figures = [*model.chip, *model.values.values(), model.spread]
            texts = [f"{figure:.5g}" for figure in figures]
            writer.writerow([*key, *texts, model.rows, model.rest])


@lru_cache
def models(kind: Kind) -> dict[Key, KernelModel]:
    """What is learnt of a kind, in the order of its table."""
    learnt = {}
    for row in rows_of(kind.table):
        chip = Chip(*(float(row[name]) for name in Chip._fields))
        values = {name: float(row[name]) for name in kind.values}
        key = Key(*(row[name] for name in Key._fields))
        spread, rows = float(row["spread"]), int(row["rows"])
        learnt[key] = KernelModel(kind, chip, values, spread, row["rest"], rows)
    return learnt
