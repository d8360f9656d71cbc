"""Transfers between the stages of a pipeline, and the order in which a step may be written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.steps.turns import topological_order
from topologies.errors import InputError
from topologies.topology import Ints

Longs = npt.NDArray[np.int64]


class Transfers(NamedTuple):
    """The transfers of a pipeline, a row each."""

    sender: Ints
    """The action whose result is sent."""
    receiver: Ints
    """The action that waits for it, on another device."""
    slot: Ints
    """0 for the first result that the receiver waits for, 1 for the second one."""
    order: Longs
    """Actions, and transfers as the number of actions plus their row: each behind those that it
    waits for."""


def transfers(pipeline: Pipeline, blocking: bool = False) -> Transfers:
    """The transfers of a pipeline. Raises InputError if they are blocking and devices wait for each
    other without end."""
    count = len(pipeline)
    needs = np.where(np.roll(pipeline.paired, 1)[:, None], -1, pipeline.needs)
    remote = (needs >= 0) & (pipeline.device[needs] != pipeline.device[:, None])
    receiver, slot = np.nonzero(remote)
    sender = needs[receiver, slot]
    turn = np.empty(count, dtype=np.int64)
    turn[pipeline.order] = np.arange(count)
    place = np.concatenate((2 * turn, 2 * turn[sender] + 1))
    if blocking:
        order = _blocking_order(pipeline, sender, receiver, place)
    else:
        order = np.argsort(place, kind="stable")
    sender, arrives, place = np.array((sender, receiver, slot), dtype=np.int32)
    return Transfers(sender, arrives, place, order)


def _blocking_order(pipeline: Pipeline, sender: Ints, receiver: Longs, place: Longs) -> Longs:
    """Actions and transfers by their `place`, each behind those that it waits for, where an action
    also waits for the transfers of the action before, and a transfer for the action before its
    receiver."""
    count, sends, before = len(pipeline), len(sender), pipeline.before
    transfer = count + np.arange(sends)
    behind = np.flatnonzero(before >= 0)
    follower = np.full(count, -1, dtype=np.int64)
    follower[before[behind]] = behind
    blocked, ready = follower[sender] >= 0, before[receiver] >= 0
    edges = np.concatenate(
        [
            np.stack((before[behind], behind)),
            np.stack((sender, transfer)),
            np.stack((transfer, receiver)),
            np.stack((transfer[blocked], follower[sender][blocked])),
            np.stack((before[receiver][ready], transfer[ready])),
        ],
        axis=1,
    )
    order = topological_order(edges, place, np.arange(len(place)))
    if len(order) < len(place):
        stuck = int(np.setdiff1d(np.arange(len(place)), order)[0])
        row = stuck if stuck < count else int(sender[stuck - count])
        raise InputError(
            f"pipeline {pipeline.name}: with blocking transfers devices wait for each other, as "
            f"device {pipeline.device[row]} at {pipeline.text(row)}: leave blocking out"
        )
    return order
