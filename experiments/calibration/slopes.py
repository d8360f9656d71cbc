"""How the time of each point changes with each parameter of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.calibration.library_model import Model, PathChoice
from experiments.calibration.observations import Ints
from simulator.effects.jobs import Index, Jobs
from simulator.profile import Profile
from topologies.topology import Floats

STEP = 1e-6
"""The change of a parameter, as the fit counts it."""


class Active(NamedTuple):
    """The path of each simulated point that decides its time. Arrays have the shape (points,);
    counts by kind of link have the shape (points, kinds)."""

    size: Floats
    """V in bytes."""
    jobs: Jobs
    """The job of the algorithm that ran."""
    job: Ints
    """Its number in all jobs of the model."""
    protocol: Ints
    """The number of the protocol."""
    latencies: Floats
    """How often the path has α."""
    crossed: Floats
    """The bytes on links."""
    gaps: Floats
    """How often the path has g."""
    merged: Floats
    """The bytes that the path merges."""
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
