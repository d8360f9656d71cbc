"""How the time of each point changes with each parameter of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.calibration.model import Model
from experiments.calibration.table import Ints
from simulator.effects.jobs import Index, Jobs
from simulator.profile import Profile
from topologies.topology import Floats

STEP = 1e-6
"""The change of a parameter, as the fit counts it."""


class Active(NamedTuple):
    """The one path of each point that is its time. Arrays have the shape (points,), counts by kind
    of link (points, kinds)."""

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

    def on_links(self, model: Model, profile: Profile) -> Floats:
        """Seconds on links, shape (points,)."""
        costs = profile.link_costs(model.paths.jobs, profile.protocols, model.kinds)
        latency = self.latencies * costs.latency[self.job, self.protocol]
        transfer = self.crossed / costs.bandwidth[self.job, self.protocol]
        return np.asarray((latency + transfer + self.gaps * costs.gap[self.protocol]).sum(axis=1))

    def elsewhere(self, model: Model, profile: Profile) -> Floats:
        """Seconds of merging, and those that no link takes, shape (points,)."""
        shares = profile.shares(self.jobs, self.size, self.excess, model.kinds)
        return np.asarray(self.merged * profile.memory.merge(self.size) + sum(shares.values()))


def active(model: Model, inner: Floats, keep: Index) -> Active:
    """The active path of each point that `keep` chooses, at some parameters."""
    table, size = model.table(keep), model.points.size[keep]
    algorithm, protocol, path = model.choice(inner, keep, table)
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


def slopes(model: Model, inner: Floats, keep: Index) -> Floats:
    """Derivatives of log time by every parameter, shape (points, parameters), along the active
    paths."""
    paths, profile = active(model, inner, keep), model.profile(inner)
    on_links, elsewhere = paths.on_links(model, profile), paths.elsewhere(model, profile)
    columns = []
    for step in STEP * np.eye(len(inner)):
        changed = model.profile(inner + step)
        columns.append(
            (on_links if _same_links(profile, changed) else paths.on_links(model, changed))
            + (elsewhere if _same_rest(profile, changed) else paths.elsewhere(model, changed))
        )
    return (np.stack(columns, axis=1) / (on_links + elsewhere)[:, None] - 1) / STEP


def _same_links(one: Profile, other: Profile) -> bool:
    """Whether links cost the same under two profiles of one library."""
    return (one.crowding, one.slower, one.protocols) == (
        other.crowding,
        other.slower,
        other.protocols,
    )


def _same_rest(one: Profile, other: Profile) -> bool:
    """Whether the rest costs the same under two profiles of one library."""
    return (one.launch, one.launches, one.memory, one.exchanges) == (
        other.launch,
        other.launches,
        other.memory,
        other.exchanges,
    ) and (one.crowding == other.crowding or not one.exchanges.slowness)
