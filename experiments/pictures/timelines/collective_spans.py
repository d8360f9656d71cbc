"""The spans of a collective: what each rank sends, receives, merges and computes, and what it
waits for meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.names import rank_name, standing
from experiments.pictures.timelines.spans import IDLE, MOST, Columns, Spans, path_pieces
from simulator.analysis.bubbles import CAUSES, CONTENTION, DRAIN, SLOWER_PEER, TRANSFER
from simulator.analysis.contention import queue_spans, waited
from simulator.analysis.critical_path import PARTS, CriticalPath
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from topologies.columns import entries, ranges
from topologies.topology import Flags, Floats, Ints, Longs, Numbers

LANES = ("computes", "sends", "queues", "receives", "merges", "phases")
COMPUTES, SENDS, QUEUES, RECEIVES, MERGES, PHASES = range(len(LANES))
MOST_QUEUED = 500_000
"""Of more operations, messages say how long they wait on their way, but not for which link."""
MOST_UNFOLDED = 200_000
"""A picture shows all ranks of a folded schedule if they have at most so many spans."""
ROUNDING = 1e-9
"""A share of the makespan: shorter waits are rounding errors of differences."""
ON_LANE = np.array([COMPUTES, SENDS, SENDS, SENDS, MERGES, MERGES], dtype=np.int32)
"""The lane of each part of a critical path, in the order of SEGMENT_PARTS."""


def collective_spans(
    timeline: Timeline, path: CriticalPath | None = None, *, everyone: bool = False
) -> Spans:
    """The spans of a collective, and its critical path if that is given.

    Between two messages that it sends, a rank first waits for what it must have received or
    computed, then for its link. Of a folded schedule, the rows are the ranks that stand for all;
    `everyone` shows all ranks, if their spans are not too many.
    """
    run = run_rows(timeline, path)
    parts = run.computes(), run.sends(SENDS), run.queues(), run.receives(), run.merges()
    return _described(run, (*parts, run.stalls()), everyone=everyone)


def traced_spans(timeline: Timeline) -> Spans:
    """What a trace of a collective shows: all computations, messages and merges, and from when to
    when each rank takes part in each phase."""
    run = run_rows(timeline)
    return _described(run, (run.computes(), run.merges(), run.phases(), run.sends(SENDS)), None)


def _described(
    run: RunRows, parts: tuple[Columns, ...], most: int | None = MOST, *, everyone: bool = False
) -> Spans:
    schedule, ranks = run.timeline.schedule, run.ranks
    columns, remarks = Columns.behind(*parts), tuple[str, ...]()
    if schedule.fold is not None:
        remarks = (standing(len(ranks), schedule.ranks),)
        if everyone and len(columns.row) * schedule.members <= MOST_UNFOLDED:
            columns, remarks = run.unfolded(Columns.joined(columns)), ()
            ranks = np.arange(schedule.ranks, dtype=np.int32)
    names = [rank_name(schedule, rank) for rank in range(schedule.ranks)]
    phases = (*schedule.phases, IDLE)
    return run.described(
        names,
        ranks,
        ON_LANE[run.path.part],
        lanes=LANES,
        kinds=phases,
        names=phases,
        causes=CAUSES,
        remarks=remarks,
    ).having(columns, most=most)


def run_rows(timeline: Timeline, path: CriticalPath | None = None) -> RunRows:
    """The ranks that send or receive as rows."""
    ranks = np.union1d(timeline.schedule.rank, timeline.routed.peer).astype(np.int32)
    return RunRows(timeline, ranks, path or CriticalPath.empty())


@dataclass(frozen=True, eq=False)
class RunRows:
    """A timeline, the ranks that are rows, and the critical path if it is drawn."""

    timeline: Timeline
    ranks: Ints
    path: CriticalPath = field(default_factory=CriticalPath.empty)

    @cached_property
    def through(self) -> Flags:
        """Whether the critical path runs through each operation."""
        through = np.zeros(len(self.timeline.schedule), dtype=np.bool_)
        through[self.path.operation[(self.path.seconds > 0) & (self.path.operation >= 0)]] = True
        return through

    @cached_property
    def sent(self) -> Columns:
        """Transfers between two ranks while they hold that medium of their first link which they
        hold longest: with the number of the sender as row, and that of the medium as link."""
        timeline, used = self.timeline, self.timeline.occupancy
        first = used.node == timeline.routed.node_indptr[used.operation]
        operation, medium = used.operation[first], used.medium[first]
        topology = timeline.routed.topology
        seconds = used.nbytes[first] / topology.medium_bandwidth[medium]
        seconds += topology.medium_gap[medium]
        order = np.lexsort((-seconds, operation))
        chosen = order[np.diff(operation[order], prepend=-1) > 0]
        task, start = operation[chosen], used.start[first][chosen]
        end = timeline.sent[task] if timeline.sharing == "fair" else start + seconds[chosen]
        sent = Columns.of(timeline.schedule.rank[task], start, end, link=medium[chosen], task=task)
        return sent.take(np.isin(sent.row, self.ranks))

    def row(self, rank: Numbers) -> Ints:
        """The row of each rank."""
        return np.searchsorted(self.ranks, rank).astype(np.int32)

    def described(self, peers: Sequence[str], ranks: Ints, lane: Ints, **fields: Any) -> Spans:
        """Spans without columns: the names of all ranks, those that are rows, the lane of each
        segment of the critical path, and the other fields."""
        routed = self.timeline.routed
        return Spans(
            rows=tuple(peers[rank] for rank in ranks.tolist()),
            nodes=routed.machine.node[routed.machine.placement[ranks]].astype(np.int32),
            peers=peers,
            links=routed.topology.medium_names,
            parts=PARTS,
            makespan=self.timeline.makespan,
            path=path_pieces(self.path, ranks, lane),
            places=ranks,
            **fields,
        )

    def spans(
        self, lane: int, operation: Ints, rank: Ints, start: Floats, end: Floats, **about: Any
    ) -> Columns:
        """Operations on a lane of some ranks, and what there is to say about them."""
        schedule = self.timeline.schedule
        phase = schedule.phase[operation]
        columns: dict[str, Any] = {
            **{"lane": lane, "kind": phase, "name": phase, "task": operation},
            **{"nbytes": schedule.nbytes[operation], "critical": self.through[operation]},
        }
        return Columns.of(self.row(rank), start, end, **columns | about)

    def idle(self, lane: int, row: Numbers, start: Floats, end: Floats, **about: Any) -> Columns:
        """Times in which a lane of some rows waits, and what there is to say about them."""
        idle = len(self.timeline.schedule.phases)
        return Columns.of(row, start, end, lane=lane, kind=idle, name=idle, **about)

    def computes(self) -> Columns:
        """What ranks compute."""
        timeline, schedule = self.timeline, self.timeline.schedule
        taking = (schedule.kind == COMPUTE) & (timeline.finish > timeline.start)
        operation = np.flatnonzero(taking).astype(np.int32)
        times = timeline.start[operation], timeline.finish[operation]
        return self.spans(COMPUTES, operation, schedule.rank[operation], *times, nbytes=0)

    def merges(self) -> Columns:
        """What ranks merge and copy: additions and local copies that take time."""
        timeline, schedule = self.timeline, self.timeline.schedule
        start = timeline.node_start[timeline.routed.node_indptr[1:] - 1]
        local = (schedule.kind != COMPUTE) & ~schedule.remote
        taking = (local | (schedule.reduces == 1)) & (start < timeline.finish)
        operation = np.flatnonzero(taking).astype(np.int32)
        rank, peer = self.folded(schedule.peer[operation]), sender_at(timeline, operation)
        times = start[operation], timeline.finish[operation]
        return self.spans(MERGES, operation, rank, *times, peer=peer)

    def phases(self) -> Columns:
        """The part of each rank in each phase, from its first message to its last, with the bytes
        that it sends. Messages are those that it sends or receives."""
        timeline, schedule = self.timeline, self.timeline.schedule
        shape = len(self.ranks), len(schedule.phases)
        first, last, nbytes = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
        moves = np.flatnonzero(schedule.kind != COMPUTE)
        for rank in (schedule.rank, timeline.routed.peer):
            place = self.row(self.folded(rank[moves])), schedule.phase[moves]
            np.minimum.at(first, place, timeline.start[moves])
            np.maximum.at(last, place, timeline.finish[moves])
        sender = self.row(schedule.rank[moves]), schedule.phase[moves]
        np.add.at(nbytes, sender, (schedule.nbytes * schedule.remote)[moves])
        row, phase = np.nonzero(last > first)
        times, sent = (first[row, phase], last[row, phase]), nbytes[row, phase]
        return Columns.of(row, *times, lane=PHASES, kind=phase, name=phase, nbytes=sent)

    def unfolded(self, columns: Columns) -> Columns:
        """The spans of all ranks, each like those of the rank that stands for it."""
        ranks = np.arange(self.timeline.schedule.ranks, dtype=np.int32)
        stands = self.row(self.folded(ranks))
        low, high = (np.searchsorted(columns.row, stands, side) for side in ("left", "right"))
        owner, place = ranges(low, high - low)
        return columns.take(place)._replace(row=ranks[owner])

    def folded(self, rank: Ints) -> Ints:
        """The rank that stands for each."""
        fold = self.timeline.schedule.fold
        return rank if fold is None else fold.shifts.folded(rank).astype(np.int32)

    def sends(self, lane: int) -> Columns:
        """Messages of the ranks while they hold the first link."""
        sent, timeline = self.sent, self.timeline
        return self.spans(
            lane,
            sent.task,
            sent.row,
            sent.start,
            sent.end,
            peer=timeline.schedule.peer[sent.task],
            link=sent.link,
            waited=waited(timeline)[0][sent.task] if len(sent.row) else np.zeros(0),
        )

    def queues(self) -> Columns:
        """Messages on their way that wait for a link which serves messages of other ranks."""
        schedule = self.timeline.schedule
        if len(schedule) > MOST_QUEUED:
            return Columns.of(*np.zeros((3, 0)))
        operation, medium, start, end = queue_spans(self.timeline)
        about = {"awaited": schedule.phase[operation], "peer": schedule.peer[operation]}
        row = self.row(schedule.rank[operation])
        return self.idle(QUEUES, row, start, end, cause=CONTENTION, link=medium, **about)

    def receives(self) -> Columns:
        """Messages from the arrival of the first byte until all has arrived."""
        timeline, schedule = self.timeline, self.timeline.schedule
        operation, link, node = last_hops(timeline)
        start = timeline.node_start[node] + timeline.routed.topology.latency[link]
        merged = timeline.node_start[timeline.routed.node_indptr[operation + 1] - 1]
        end = np.where(schedule.reduces[operation] == 1, merged, timeline.finish[operation])
        taking = end > start
        chosen, times = operation[taking], (start[taking], end[taking])
        rank, peer = timeline.routed.peer[chosen], sender_at(timeline, chosen)
        return self.spans(RECEIVES, chosen, rank, *times, peer=peer, link=link[taking])

    def stalls(self) -> Columns:
        """When ranks send nothing: they wait for an operation, then for a link, and at the end
        nothing is left to send."""
        timeline, schedule = self.timeline, self.timeline.schedule
        sent = self.sent.take(np.lexsort((self.sent.start, self.sent.row)))
        row, operation, start = self.row(sent.row), sent.task, sent.start
        begin = free_before(row, start, sent.end)
        ready = np.clip(timeline.ready[operation], begin, start)
        least = ROUNDING * timeline.makespan
        late = np.flatnonzero(ready - begin > least)
        latest = latest_predecessor(timeline, operation[late])
        computed = (schedule.kind[latest] == COMPUTE) & (latest >= 0)
        about = {
            "cause": np.where(computed, SLOWER_PEER, TRANSFER),
            "awaited": np.where(latest >= 0, schedule.phase[latest], -1),
            "peer": np.where(latest >= 0, sender_at(timeline, latest), -1),
            "link": last_link(timeline, latest),
        }
        waits = self.idle(SENDS, row[late], begin[late], ready[late], **about)
        queued = np.flatnonzero(start - ready > least)
        front = timeline.node_cause[timeline.routed.node_indptr[operation[queued]]]
        ahead = np.where(front < 0, -1, timeline.routed.sender[np.maximum(front, 0)])
        about = {
            "cause": np.where(ahead != self.ranks[row[queued]], CONTENTION, TRANSFER),
            "awaited": schedule.phase[operation[queued]],
            "peer": ahead,
            "link": sent.link[queued],
        }
        queues = self.idle(SENDS, row[queued], ready[queued], start[queued], **about)
        done = np.zeros(len(self.ranks))
        np.maximum.at(done, row, sent.end)
        rows = np.flatnonzero((done > 0) & (done < timeline.makespan * (1 - ROUNDING)))
        until = np.full(len(rows), timeline.makespan)
        drains = self.idle(SENDS, rows, done[rows], until, cause=DRAIN)
        return Columns.joined(waits, queues, drains)


def free_before(row: Ints, start: Floats, end: Floats) -> Floats:
    """When the spans of each row before a span have ended; spans are in order of row and start."""
    latest = end.copy()
    bounds = np.flatnonzero(np.diff(row, prepend=-1) > 0).tolist()
    for first, last in pairwise([*bounds, len(row)]):
        np.maximum.accumulate(latest[first:last], out=latest[first:last])
    before = np.roll(latest, 1)
    before[bounds] = 0.0
    return np.minimum(before, start)


def latest_predecessor(timeline: Timeline, operation: Ints) -> Ints:
    """The predecessor of each operation that finished last; -1 for none."""
    indptr, indices = timeline.schedule.indptr, timeline.schedule.indices
    owner, entry = entries(indptr, operation)
    candidate = indices[entry]
    order = np.lexsort((timeline.finish[candidate], owner))
    latest = np.full(len(operation), -1, dtype=np.int32)
    latest[owner[order]] = candidate[order]
    return latest


def sender_at(timeline: Timeline, operation: Ints) -> Ints:
    """The rank that sends or computes each operation: of a folded schedule, the one whose message
    goes to the representative of the receiver."""
    schedule = timeline.schedule
    rank = schedule.rank[operation]
    if schedule.fold is None:
        return rank
    shifts = schedule.fold.shifts
    return shifts.back(rank, shifts.element(schedule.peer[operation])).astype(np.int32)


def last_hops(timeline: Timeline) -> tuple[Ints, Ints, Longs]:
    """Each transfer, the last link of its route, and the node of that hop."""
    last = np.flatnonzero(np.diff(timeline.hops[0], append=-1))
    operation, link, node = timeline.hops
    return operation[last], link[last], node[last]


def last_link(timeline: Timeline, operation: Ints) -> Ints:
    """The last link of the route of each transfer; -1 for what is none."""
    links = np.full(len(timeline.schedule) + 1, -1, dtype=np.int32)
    transfer, link, _ = last_hops(timeline)
    links[transfer] = link
    return links[operation]
