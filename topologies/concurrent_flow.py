"""How fast many pairs of devices can exchange bytes at the same time, on any routes, which may
split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.routing import distances
from topologies.topology import Floats, Ints, Topology

Longs = npt.NDArray[np.int64]
Matrix = Any
"""A scipy.sparse.csr_array."""


def concurrent_flow(topology: Topology, devices: Ints, demand: Floats) -> float:
    """The least seconds in which `demand[i, j]` bytes get from `devices[i]` to `devices[j]`, for
    all i and j at once.

    A linear program with one flow a source (F. Shahrokhi, D. W. Matula, "The maximum concurrent
    flow problem", JACM 1990). The prices of media that come with its solution go through
    :func:`stretch`: so the answer is a lower limit to the last digit, whatever the solver's
    tolerance. Infinite where there is no way.

    >>> from topologies.shapes import ring
    >>> machine = ring(4, bandwidth=1.0)
    >>> concurrent_flow(machine, machine.placement, np.ones((4, 4)) - np.eye(4))
    2.0
    """
    hops = stretch(topology, devices, demand, np.ones(len(topology.medium_bandwidth)))
    if hops == 0 or not np.isfinite(hops):
        return hops
    return max(hops, stretch(topology, devices, demand, _prices(topology, devices, demand)))


def stretch(topology: Topology, devices: Ints, demand: Floats, prices: Floats) -> float:
    """A lower limit in seconds on moving `demand[i, j]` bytes from `devices[i]` to `devices[j]`,
    for all i and j.

    Let every byte pay `prices[m]` to cross medium m. Each byte pays at least for its cheapest
    route. A medium earns at most β times its price a second. With prices of 1 this counts bytes
    times links. With the best prices it equals the concurrent flow, of which it is the dual.
    """
    limiting = np.isfinite(topology.medium_bandwidth)
    prices = np.where(limiting, prices, 0.0)
    owner = np.repeat(np.arange(topology.links), np.diff(topology.link_indptr))
    length = np.asarray(
        np.bincount(owner, prices[topology.link_media], topology.links), dtype=np.float64
    )
    away = distances(replace(topology, latency=length, placement=devices))
    paid = float(demand[demand > 0] @ away[demand > 0])
    capacity = float(prices[limiting] @ topology.medium_bandwidth[limiting])
    return paid / capacity if capacity > 0 else paid


def _prices(topology: Topology, devices: Ints, demand: Floats) -> Floats:
    """The price of each medium where T is least.

    Source s sends `x[s, k]` over link k. What enters a device less what leaves it is its demand.
    All x over a medium, divided by its β, are at most T.
    """
    from scipy.optimize import linprog

    sources = np.flatnonzero(demand.any(axis=1))
    deficit = np.zeros((len(sources), len(topology.device_names)))
    deficit[:, devices] = demand[sources] / demand.max()
    deficit[np.arange(len(sources)), devices[sources]] -= deficit.sum(axis=1)
    limiting = np.flatnonzero(np.isfinite(topology.medium_bandwidth))
    slowness = topology.medium_bandwidth[limiting].min() / topology.medium_bandwidth[limiting]
    balance, load = (
        _balance(topology, len(sources)),
        _load(topology, limiting, slowness, len(sources)),
    )
    time = np.arange(load.shape[1]) == load.shape[1] - 1
    solved = linprog(
        time, load, np.zeros(len(limiting)), balance, deficit.ravel(), method="highs-ds"
    )
    prices = np.zeros(len(topology.medium_bandwidth))
    prices[limiting] = np.maximum(-solved.ineqlin.marginals, 0.0) * slowness
    return prices


def _balance(topology: Topology, sources: int) -> Matrix:
    """What enters each device less what leaves it, a row for every source and device, a column for
    every x and T."""
    from scipy.sparse import csr_array

    links, devices = topology.links, len(topology.device_names)
    first = devices * np.arange(sources)[:, None]
    row = np.concatenate([(first + end).ravel() for end in (topology.target, topology.source)])
    column = np.tile(np.arange(sources * links), 2)
    value = np.repeat((1.0, -1.0), sources * links)
    return csr_array((value, (row, column)), shape=(sources * devices, sources * links + 1))


def _load(topology: Topology, limiting: Longs, slowness: Floats, sources: int) -> Matrix:
    """The bytes that cross each medium, weighted, less T: a row for each of `limiting`, a column
    for every x and T."""
    from scipy.sparse import csr_array

    owner = np.repeat(np.arange(topology.links), np.diff(topology.link_indptr))
    crossings = np.isin(topology.link_media, limiting)
    row, every = np.searchsorted(limiting, topology.link_media[crossings]), np.arange(len(limiting))
    column = (topology.links * np.arange(sources)[:, None] + owner[crossings]).ravel()
    time = np.full(len(limiting), sources * topology.links)
    value = np.concatenate((np.tile(slowness[row], sources), np.full(len(limiting), -1.0)))
    ends = np.concatenate((np.tile(row, sources), every)), np.concatenate((column, time))
    return csr_array((value, ends), shape=(len(limiting), sources * topology.links + 1))
