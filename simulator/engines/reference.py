"""The rules of time as SimPy processes: short, slow, and the definition of what they mean.

The place for behaviour of your own: subclass :class:`ReferenceMachine` and pass it to :func:`run`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from heapq import heappush

import numpy as np
import simpy
from simpy.events import NORMAL, Event, EventPriority

from simulator.schedules.routed import Routed
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Sharing, Timeline

Process = Generator[Event, object, None]


class EventClock(simpy.Environment):
    """An environment in which events are set at absolute times: a delay would round, and ties would
    break."""

    def at(self, time: float, node: int | None = None) -> Event:
        """An event at `time`, after every event without a node and after lower nodes at the same
        time."""
        event = Event(self)
        event._ok, event._value = True, None
        priority = NORMAL if node is None else NORMAL + 1 + node
        heappush(self._queue, (time, EventPriority(priority), next(self._eid), event))
        return event


class SerialResource:
    """What serves one at a time, in order of arrival: a medium, a lane of computations or of
    reductions."""

    def __init__(self) -> None:
        self.free = 0.0
        self.holder = -1

    def hold(self, start: float, seconds: float, node: int) -> float:
        """Occupy it from `start` on; returns the end."""
        self.free, self.holder = start + seconds, node
        return self.free


class ReferenceMachine:
    """One run: a process an operation, resources that remember when they are free."""

    sharing: Sharing = "fifo"
    store_and_forward = False

    def __init__(self, routed: Routed) -> None:
        self.routed, self.schedule, self.topology = routed, routed.schedule, routed.topology
        self.clock = EventClock()
        operations, nodes = len(self.schedule), int(routed.node_indptr[-1])
        self.ready, self.finish = np.zeros(operations), np.zeros(operations)
        self.start, self.cause = np.zeros(nodes), np.full(nodes, -1, dtype=np.int32)
        self.sent = np.zeros(0)
        self.media = [SerialResource() for _ in self.topology.medium_names]
        self.lanes: dict[tuple[int, int], SerialResource] = defaultdict(SerialResource)
        self.merging: dict[int, SerialResource] = defaultdict(SerialResource)
        self.peer = routed.peer.tolist()

    def run(self) -> Timeline:
        """Simulate to the end."""
        self.done: list[Event] = []
        for operation in range(len(self.schedule)):
            self.done.append(self.clock.process(self.operation(operation)))
        self.clock.run()
        columns = self.ready, self.finish, self.start, self.cause
        return Timeline(self.routed, *columns, self.sharing, self.store_and_forward, self.sent)

    def operation(self, i: int) -> Process:
        """Wait for the predecessors, do it, and say when it is finished."""
        for predecessor in self.schedule.predecessors(i):
            if not self.done[predecessor].processed:
                yield self.done[predecessor]
        self.ready[i] = self.clock.now
        yield from self.behaviour(i)(i)
        yield self.clock.at(self.finish[i])

    def behaviour(self, i: int) -> Callable[[int], Process]:
        """What kind of operation it is."""
        if self.schedule.kind[i] == COMPUTE:
            return self.compute
        return self.transfer if len(self.routed.hops(i)) else self.merge

    def compute(self, i: int) -> Process:
        """Occupy a lane for the duration."""
        lane = self.lanes[int(self.schedule.rank[i]), int(self.schedule.lane[i])]
        yield from self.occupy(i, int(self.routed.node_indptr[i]), lane, self.schedule.seconds[i])

    def merge(self, i: int) -> Process:
        """Merge or copy at the receiver: what a local transfer is, and how a reducing one ends."""
        peer, reduces = self.peer[i], self.schedule.reduces[i]
        cost = (self.routed.reduction if reduces else self.routed.copy)[peer]
        node = int(self.routed.node_indptr[i]) + len(self.routed.hops(i))
        yield from self.occupy(
            i, node, self.merging[peer], self._rounded(self.schedule.nbytes[i] * cost)
        )

    def occupy(self, i: int, node: int, lane: SerialResource, seconds: float) -> Process:
        """Take a turn on a lane; the operation is finished at its end."""
        yield self.clock.at(max(self.finish[i], self.clock.now), node)
        if lane.free > self.clock.now:
            self.cause[node] = lane.holder
        self.start[node] = max(self.clock.now, lane.free)
        self.finish[i] = lane.hold(self.start[node], seconds, node)

    def transfer(self, i: int) -> Process:
        """Cross the route cut-through: the head goes ahead, the bytes follow at the pace of each
        medium."""
        head = self.clock.now
        for hop, link in enumerate(self.routed.hops(i)):
            node = int(self.routed.node_indptr[i]) + hop
            yield self.clock.at(head, node)
            self.start[node], sent = self.cross(link, node, self.schedule.nbytes[i])
            self.finish[i] = max(self.finish[i], sent) + self.topology.latency[link]
            head = self.head(i, node, link)
        if self.schedule.reduces[i]:
            yield from self.merge(i)

    def head(self, i: int, node: int, link: int) -> float:
        """When the head of a transfer that has entered a link reaches the next one."""
        return float(self.start[node] + self.topology.latency[link])

    def cross(self, link: int, node: int, nbytes: float) -> tuple[float, float]:
        """Book the media of a link once all are free; returns when the first byte enters and the
        last has."""
        start = self.clock.now
        media = [(int(m), self.media[m]) for m in self.topology.media_of(link)]
        for _, medium in media:
            if medium.free > start:
                start, self.cause[node] = medium.free, medium.holder
        gap, bandwidth = self.topology.medium_gap, self.topology.medium_bandwidth
        return start, max(
            medium.hold(start, self._rounded(gap[m] + nbytes / bandwidth[m]), node)
            for m, medium in media
        )

    def _rounded(self, seconds: float) -> float:
        return seconds + self.routed.grid - self.routed.grid


class StoreAndForwardMachine(ReferenceMachine):
    """Nothing is sent on before its last byte has arrived."""

    store_and_forward = True

    def head(self, i: int, node: int, link: int) -> float:
        """When the last byte that has entered a link reaches the next one."""
        return float(self.finish[i])


def run(
    routed: Routed, machine: Callable[[Routed], ReferenceMachine] = ReferenceMachine
) -> Timeline:
    """Simulate `routed` with SimPy."""
    return machine(routed).run()
