"""The times of many measured points as one function of a machine's parameters, and its slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from experiments.calibration.effects.effect import SURE, Data, Effect
from experiments.calibration.effects.link_effects import BETWEEN
from experiments.calibration.known_paths import ALL, KnownPaths, Machine, PathTable, as_nodes
from experiments.calibration.library import Library
from experiments.calibration.observations import FitPoints, SimulatedSizes
from simulator.effects.jobs import Index, Jobs
from simulator.profile import Profile
from topologies.topology import Flags, Floats, Longs

USUAL_ERROR = 0.1
"""The usual error of a point, in log time, beside which the differences between machines count."""


class PathChoice(NamedTuple):
    """What decides the time of each point at some parameters. Arrays have the shape (points,), all
    but one of the simulated points."""

    table: PathTable
    algorithm: Longs
    """The number of the fastest algorithm in `table`."""
    protocol: Longs
    """The number of its fastest protocol."""
    path: Longs
    """The number of the longest path of that protocol."""
    seconds: Floats
    """The times of all points, simulated or between simulated ones."""


class Model:
    """Predicted seconds of `points` by a library, all of whose protocols run through simulated
    schedules.

    The model is the sum over the library's effects. They write a profile, and the profile's
    formulas give the times of the known paths of each point.

    `machine` makes a machine from ranks and ranks a node. `crowding` says whether α and β between
    nodes may depend on the number of nodes. `gaps` are the protocols and kinds of link that have a
    g. For all others g is 0, and α includes the time that a message holds a link besides its bytes.
    """

    def __init__(
        self,
        points: FitPoints,
        library: Library,
        machine: Machine = as_nodes,
        *,
        crowding: bool = True,
        gaps: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.points, self.library = points, library
        self.sizes = SimulatedSizes(points)
        self.paths = KnownPaths(self.sizes.points, library, machine)
        self.kinds = self.paths.kinds
        several = len(np.unique(points.nodes)) > 1 and any(kind in BETWEEN for kind in self.kinds)
        most = float(points.nodes.max())
        self.data = Data(
            points,
            library.protocols,
            tuple(dict.fromkeys((*self.paths.jobs.names, *library.known))),
            self.kinds,
            self.paths.figures,
            self.paths.longest,
            self.paths.jobs,
            self.paths.exchanges,
            tuple(gaps),
            crowding and several,
            most,
        )
        self.effects: tuple[Effect, ...] = tuple(make(self.data) for make in library.effects)
        self.ran: Mapping[int, tuple[str, ...]] = {}
        self.parameters = tuple(
            parameter for effect in self.effects for parameter in effect.parameters
        )
        self.index = {parameter.name: k for k, parameter in enumerate(self.parameters)}
        self.start = np.array([parameter.inner for parameter in self.parameters])
        self.weight = np.array([parameter.weight for parameter in self.parameters])
        self.machine_covariance: Floats | None = None
        """How machines differ from the start: a covariance, shape (parameters, parameters). None if
        no machine of the library was measured."""
        self.mixing = self._mixing()
        exchanges = self.profile(self.start).exchanges
        self.paths.beyond = exchanges.beyond if exchanges.slowness else inf

    def _mixing(self) -> Floats:
        """The matrix from what the fit counts to the parameters, shape (parameters, parameters)."""
        matrix, first = np.eye(len(self.parameters)), 0
        for effect in self.effects:
            last = first + len(effect.parameters)
            matrix[first:last, first:last] = effect.mixing()
            first = last
        return matrix

    def values(self, inner: Floats) -> dict[str, float]:
        """The parameters by name."""
        mixed = (self.mixing @ inner).tolist()
        return {
            parameter.name: parameter.outer(value)
            for parameter, value in zip(self.parameters, mixed, strict=True)
        }

    def profile(self, inner: Floats, name: str = "the fit", machine: str = "") -> Profile:
        """The parameters as a profile for simulations."""
        return self._written(self.values(inner), name, machine)

    def profiles(self, inners: Floats) -> Profile:
        """Several sets of parameters, shape (sets, parameters), as one profile with arrays of shape
        (sets, 1). Only its formulas take them."""
        rows = zip(self.parameters, self.mixing @ inners.T, strict=True)
        values: dict[str, Any] = {
            parameter.name: parameter.outers(row)[:, None] for parameter, row in rows
        }
        return self._written(values, "several fits", "")

    def _written(self, values: Mapping[str, float], name: str, machine: str) -> Profile:
        profile = Profile(name, machine, 0.0, (), pieces=self.library.pieces)
        for effect in self.effects:
            profile = effect.write(profile, values)
        return profile

    def predict(self, inner: Floats, keep: Index = ALL) -> Floats:
        """Seconds of the points that `keep` chooses, by the known paths."""
        return self.choice(inner, keep, self.table(keep)).seconds

    def table(self, keep: Index = ALL) -> PathTable:
        """The known paths of the simulated points that say the times of those that `keep`
        chooses."""
        table = self.paths.table()
        if self.ran:
            absent = table.absent.copy()
            for c, names in self.ran.items():
                absent[self.sizes.points.curve == c] = self.paths.absent(c, names, absent.shape[1])
            table = replace(table, absent=absent)
        return table.at(self.sizes.rows(keep))

    def choice(self, inner: Floats, keep: Index, table: PathTable) -> PathChoice:
        """What decides the time of each point that `keep` chooses. `table` is that of these
        points."""
        profile, size = self.profile(inner), self.sizes.points.size[self.sizes.rows(keep)]
        seconds = self._paths(profile, size, table)
        longest = seconds.argmax(axis=3)
        best = np.take_along_axis(seconds, longest[..., None], axis=3)[..., 0]
        protocol, every = best.argmin(axis=2), np.arange(len(best))
        times = best.min(axis=2) + self._shares(profile, size, table)
        algorithm = times.argmin(axis=1)
        number = protocol[every, algorithm]
        path = longest[every, algorithm, number]
        fastest = self.sizes.seconds(times[every, algorithm], keep)
        return PathChoice(table, algorithm, number, path, fastest)

    def _paths(self, profile: Profile, size: Floats, table: PathTable) -> Floats:
        """Seconds of every known path, shape (points, algorithms, protocols, paths)."""
        costs = profile.link_costs(self.paths.jobs, profile.protocols, self.kinds)
        latency, bandwidth, gap = (
            np.moveaxis(column[..., table.job], (0, 1), (-2, -1)) for column in costs
        )
        slowness = size[:, None, None, None] / bandwidth
        seconds = table.merged * (profile.memory.merge(size) * size)[:, None, None, None]
        for k in range(len(self.kinds)):
            seconds = seconds + table.latencies[..., k] * latency[..., k, None]
            seconds = seconds + table.bytes[..., k] * slowness[..., k, None]
            if np.any(gap):
                seconds = seconds + table.gaps[..., k] * gap[..., k, None]
        return np.asarray(seconds)

    def _shares(self, profile: Profile, size: Floats, table: PathTable) -> Floats:
        """Seconds that no link takes, infinite where an algorithm cannot have run, shape (points,
        algorithms)."""
        jobs = self.paths.jobs.at(table.job)
        shares = profile.shares(jobs, size[:, None], table.excess, self.kinds)
        return np.asarray(sum(shares.values()) + table.absent)

    def typical(self, inner: Floats) -> Floats:
        """The parameters, with those of a single allocation of the machine at their start."""
        changed = inner.copy()
        for effect in self.effects:
            for parameter in effect.parameters if effect.of_machine else ():
                changed[self.index[parameter.name]] = parameter.inner
        return changed

    def seeing(self, keep: Flags) -> Model:
        """The same model with only the points of `keep` to fit: crowding ends at the most nodes
        among them."""
        changed = copy(self)
        changed.data = replace(self.data, most=float(self.points.nodes[keep].max()))
        changed.effects = tuple(make(changed.data) for make in self.library.effects)
        return changed

    def starting(
        self, inner: Floats, weight: Floats, machine_covariance: Floats | None = None
    ) -> Model:
        """The same model whose fit starts elsewhere. Start and its weight have the shape
        (parameters,). `machine_covariance`: how machines differ from this start."""
        changed = copy(self)
        changed.start, changed.weight = inner, weight
        changed.machine_covariance = machine_covariance
        return changed

    def pull(self, points: int) -> Floats:
        """The start as data of a fit of so many points: rows that, times the distance from the
        start, join the errors of the points, shape (rows, parameters).

        Fewer points than parameters leave most of these open. Then how machines differ says which
        of them move, and which move together.
        """
        of_library = np.diag(self.weight)
        if self.machine_covariance is None or points >= len(self.parameters):
            return of_library
        # directions in which machines do not differ stay nearly where they start
        covariance = self.machine_covariance + 1e-6 * np.eye(len(of_library))
        of_machines = USUAL_ERROR * np.linalg.inv(np.linalg.cholesky(covariance))
        return np.concatenate((of_machines, of_library[self.weight >= SURE]))

    def taking(self, algorithms: Mapping[int, tuple[str, ...]]) -> Model:
        """The same model with other algorithms for some curves, whatever their labels say.

        `algorithms` has the algorithms that may have made a curve, by the number of the curve.
        """
        changed = copy(self)
        changed.ran = algorithms
        return changed

    def explore(self, inner: Floats, doubt: float = 0.0) -> float:
        """Simulate points at these parameters, and keep the paths that explain them.

        Returns the greatest relative error of the paths that were known before. Only places where
        that was at least `doubt` the last time are simulated.
        """
        return self.paths.explore(self.profile(inner), doubt)


STEP = 1e-6
"""The change of a parameter, as the fit counts it."""


class Active(NamedTuple):
    """The path of each simulated point that decides its time. Arrays have the shape (points,);
    counts by kind of link have the shape (points, kinds)."""

    size: Floats
    jobs: Jobs
    job: Longs
    protocol: Longs
    latencies: Floats
    crossed: Floats
    gaps: Floats
    merged: Floats
    excess: Floats
    """The bytes of long exchanges."""

    def seconds(self, model: Model, profile: Profile) -> Floats:
        """Seconds of the path, shape (points, ...): first the points, then the profile's sets."""
        shares = profile.shares(self.jobs, self.size, self.excess, model.kinds)
        merged = self.merged * profile.memory.merge(self.size)
        return np.asarray(sum(self.on_links(model, profile)) + (merged + sum(shares.values())).T)

    def on_links(self, model: Model, profile: Profile) -> tuple[Floats, Floats]:
        """Seconds of α and g, and of bytes on links, shape (points, ...) each."""
        costs = profile.link_costs(model.paths.jobs, profile.protocols, model.kinds)
        latency, bandwidth, gap = (column[self.protocol, :, :, self.job] for column in costs)
        latencies, crossed, gaps = (
            counts[..., None] for counts in (self.latencies, self.crossed, self.gaps)
        )
        before = (latencies * latency + gaps * gap).sum(axis=1)
        return np.asarray(before), np.asarray((crossed / bandwidth).sum(axis=1))


def active(model: Model, inner: Floats, keep: Index, choice: PathChoice | None = None) -> Active:
    """The active paths that say the times of the points that `keep` chooses, at some parameters.
    `choice` is ``model.choice`` there, if it is known already."""
    choice = choice or model.choice(inner, keep, model.table(keep))
    table, algorithm, protocol, path, _ = choice
    size = model.sizes.points.size[model.sizes.rows(keep)]
    every = np.arange(len(size))
    place, job = (every, algorithm, protocol, path), table.job[every, algorithm]
    return Active(
        size,
        model.paths.jobs.at(job),
        job,
        protocol,
        table.latencies[place],
        table.bytes[place] * size[:, None],
        table.gaps[place],
        table.merged[place] * size,
        table.excess[every, algorithm],
    )


def slopes(model: Model, inner: Floats, keep: Index, choice: PathChoice | None = None) -> Floats:
    """Derivatives of log time by every parameter along the active paths, shape (points,
    parameters). `choice`: see `active`."""
    return np.expm1(along(model, inner, STEP * np.eye(len(inner)), keep, choice)) / STEP


def along(
    model: Model, inner: Floats, moves: Floats, keep: Index, choice: PathChoice | None = None
) -> Floats:
    """How log time changes along the active paths if the parameters move, shape (points, moves);
    `moves` has the shape (moves, parameters). `choice`: see `active`."""
    sets = np.vstack((inner, inner + moves))
    seconds = active(model, inner, keep, choice).seconds(model, model.profiles(sets))
    return model.sizes.between(np.asarray(np.log(seconds[:, 1:] / seconds[:, :1])), keep)
