"""Who waits for whom in a step: places in calls that others enter later, and for what others send
later."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.parallel.step import Step
from simulator.steps.group_meetings import joint_calls
from topologies.topology import Floats, Ints


class PeerWaits(NamedTuple):
    """How long places wait for others, a row for each two places and each lane."""

    place: Ints
    peer: Ints
    """The place for which it waits."""
    lane: Ints
    """The stream of the call, or of what is sent."""
    seconds: Floats


def peer_waits(step: Step) -> PeerWaits:
    """The waits of a step. In a call, a place waits from when it enters until the last one does,
    which is its peer. For a message it waits until the peer sends it; the rest is its transfer."""
    graph, timeline, tasks = step.graph, step.timeline, np.arange(len(step.graph))
    later, earlier = graph.waiting, graph.indices
    unit, entered, ready = joint_calls(graph), np.zeros(len(graph)), np.zeros(len(graph))
    np.maximum.at(entered, later, timeline.finish[earlier])
    last = tasks[np.lexsort((-tasks, entered))]
    peer = np.empty(len(graph), dtype=np.int64)
    peer[unit[last]] = last
    peer = peer[unit]
    called = np.flatnonzero(entered[peer] > entered)

    # A device and its CPU may wait for the same message: it counts once.
    own = graph.place[later] == graph.place[earlier]
    np.maximum.at(ready, later[own], timeline.finish[earlier[own]])
    later, earlier = later[~own], earlier[~own]
    sends = graph.communicates[earlier]
    leaves = np.where(sends, timeline.start[earlier], timeline.finish[earlier])
    late = leaves - ready[later]
    message = earlier * np.int64(graph.places) + graph.place[later]
    order = np.lexsort((-late, message))
    order = order[np.append(True, np.diff(message[order]) > 0)[: len(order)]]
    order = order[late[order] > 0]
    place = np.append(graph.place[called], graph.place[later[order]])
    other = np.append(graph.place[peer[called]], graph.place[earlier[order]])
    lane = np.append(graph.lane[called], graph.lane[earlier[order]])
    seconds = np.append((entered[peer] - entered)[called], late[order])
    shape = graph.places, graph.places, len(graph.lanes)
    key, row = np.unique(np.ravel_multi_index((place, other, lane), shape), return_inverse=True)
    place, other, lane = (each.astype(np.int32) for each in np.unravel_index(key, shape))
    return PeerWaits(place, other, lane, np.bincount(row, seconds).astype(np.float64))
