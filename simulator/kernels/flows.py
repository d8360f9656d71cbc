"""What the loop of fair sharing remembers of flows, their routes and their media."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Floats, FlowRoutes, Ints, Unsigned

_NONE = -1


class Queues(NamedTuple):
    """The flows of each route, in the order in which they end, and the routes in use across each
    medium: m has `member[first[m] : first[m] + active[m]]`."""

    threshold: Floats
    """The bytes that its route has served when the flow of each operation ends."""
    earlier: Ints
    """The flow before that of each operation, or -1."""
    later: Ints
    """The flow after it, or -1."""
    head: Ints
    """The first flow of each route, or -1."""
    tail: Ints
    """The last flow of each route, or -1."""
    flows: Ints
    """The number of flows of each route."""
    ahead: Floats
    """The threshold of the first flow of each route."""
    rate: Floats
    """Bytes/s of each flow of each route."""
    served: Floats
    """The bytes that each flow of each route has had since the route was idle."""
    updated: Floats
    """When `served` was counted."""
    first: Ints
    member: Unsigned
    entry: Unsigned
    """The place of each member in `FlowRoutes.media`."""
    place: Unsigned
    """Where in `member` the route of each place in `FlowRoutes.media` is."""
    active: Ints
    """The number of routes in use across each medium."""
    load: Ints
    """The number of flows across each medium."""
    busy: Ints
    """The number of media in use, shape (1,)."""

    @classmethod
    def idle(cls, operations: int, routes: FlowRoutes, media: int) -> Queues:
        """No flow on any route."""
        count, first = len(routes.gap), np.zeros(media + 1, np.int32)
        np.cumsum(np.bincount(routes.media, minlength=media), out=first[1:])
        return cls(
            threshold=np.zeros(operations),
            earlier=np.full(operations, _NONE, np.int32),
            later=np.full(operations, _NONE, np.int32),
            head=np.full(count, _NONE, np.int32),
            tail=np.full(count, _NONE, np.int32),
            flows=np.zeros(count, np.int32),
            ahead=np.zeros(count),
            rate=np.zeros(count),
            served=np.zeros(count),
            updated=np.zeros(count),
            first=first,
            member=np.zeros_like(routes.media),
            entry=np.zeros_like(routes.media),
            place=np.zeros_like(routes.media),
            active=np.zeros(media, np.int32),
            load=np.zeros(media, np.int32),
            busy=np.zeros(1, np.int32),
        )


class Rates(NamedTuple):
    """What a solution for the rates works on."""

    bandwidth: Floats
    marked: npt.NDArray[np.bool_]
    """Whether the flows across each medium have changed since the last solution."""
    changed: Unsigned
    """The media that are marked."""
    reached: Unsigned
    """The media of a solution: a heap, the lowest share first."""
    seen: npt.NDArray[np.int64]
    """The number of the last solution that reached each medium."""
    spare: Floats
    """Bytes/s of each medium that no flow has yet."""
    share: Floats
    """Bytes/s of each medium for each of its flows without a rate."""
    unfixed: Ints
    """The number of flows of each medium without a rate."""
    solution: npt.NDArray[np.int64]
    """The number of the last solution with a rate for each route."""
    solved: Unsigned
    """The routes of a solution."""
    due: Floats
    """Seconds until the first flow of each of these ends."""

    @classmethod
    def blank(cls, routes: FlowRoutes, bandwidth: Floats) -> Rates:
        """No solution yet."""
        count, media = len(routes.gap), len(bandwidth)
        return cls(
            bandwidth=bandwidth,
            marked=np.zeros(media, np.bool_),
            changed=np.zeros(media, np.uint32),
            reached=np.zeros(media, np.uint32),
            seen=np.zeros(media, np.int64),
            spare=np.zeros(media),
            share=np.zeros(media),
            unfixed=np.zeros(media, np.int32),
            solution=np.zeros(count, np.int64),
            solved=np.zeros(count, np.uint32),
            due=np.zeros(count),
        )
