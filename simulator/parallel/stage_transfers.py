"""Actions of a pipeline and the transfers between its stages: what each waits for, and the order in
which a step may be written.

An item is an action, or a transfer: the number of actions plus its place in
:attr:`Pipeline.transfers`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.steps.group_meetings import topological_order
from topologies.errors import InputError
from topologies.topology import Ints

Longs = npt.NDArray[np.int64]


def item_waits(pipeline: Pipeline, *, blocking: bool = False, synchronous: bool = False) -> Ints:
    """The items that each item waits for, shape (items, 5); -1 is none.

    An action waits for the action before on its device and for what arrives, and if transfers are
    blocking or the device is synchronous for the transfers of the action before. The second action
    of a pair waits for what the first one waits for. A transfer waits for its sender, and if it is
    blocking for what the receiver does before.
    """
    count, before, (sender, receiver, slot) = len(pipeline), pipeline.before, pipeline.transfers[:3]
    sends = np.arange(count, count + len(sender))
    waits = np.full((count + len(sends), 5), -1, dtype=np.int32)
    waits[:count, 0] = before
    waits[receiver, 1 + slot] = sends
    if blocking or synchronous:
        sent, later = np.full((count + 1, 2), -1, dtype=np.int32), np.ones(len(sends), np.int32)
        later[np.unique(sender, return_index=True)[1]] = 0
        sent[sender, later] = sends
        waits[:count, 3:] = sent[before]
    waits[pipeline.second] = waits[pipeline.second - 1]
    waits[count:, 0] = sender
    if blocking:
        waits[count:, 1] = before[receiver]
    return waits


def item_order(pipeline: Pipeline, waits: Ints | None = None) -> Longs:
    """The items, each behind those that it waits for: without transfers that block, or with these
    `waits`. Raises InputError if devices wait for each other without end."""
    count, sender = len(pipeline), pipeline.transfers[0]
    turn = np.empty(count, dtype=np.int64)
    turn[pipeline.order] = np.arange(count)
    place = np.append(2 * turn, 2 * turn[sender] + 1)
    if waits is None:
        return np.argsort(place, kind="stable")
    later, column = np.nonzero(waits >= 0)
    order = topological_order(np.stack((waits[later, column], later)), place, np.arange(len(place)))
    if len(order) < len(place):
        stuck = int(np.setdiff1d(np.arange(len(place)), order)[0])
        row = stuck if stuck < count else int(sender[stuck - count])
        raise InputError(
            f"pipeline {pipeline.name}: with blocking transfers devices wait for each other, as "
            f"device {pipeline.device[row]} at {pipeline.text(row)}: leave blocking out"
        )
    return order
