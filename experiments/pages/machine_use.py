"""What a run uses over time, as a page draws it and a result file stores it: the links of its
machine, and the memory of its ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.pictures.machines.machine_layout import MOST_DEVICES, distances, machine_layout
from simulator.analysis.memory import MemoryTrace
from simulator.schedules.folded_routes import images_of
from simulator.schedules.timeline import Timeline
from topologies.columns import distinct_rows, sums
from topologies.topology import Floats, Ints, Longs, Topology

MOST_LINKS = 2_000
"""Links that are drawn, at most: of more, those that carry most."""
FULL = 1000
"""A link that is in use all the time."""
PARTS = 120
"""Parts of a run."""
IMAGES = 500_000
"""Links of the ranks for which others stand that are looked up, at most."""


def use_of(timeline: Timeline) -> Mapping[str, Any]:
    """The use of the links of a machine: lists of words, numbers, and columns by key.

    - Boxes of devices have a middle, `x` to the right and `y` up, and a `width`: 1 is the distance
      of neighbours. `device_kind` is a place in `device_kinds`; `node` is -1 for none.
    - Links begin at the box `source` and end at `target`. One from a node to itself stands for all
      links within the node. `bandwidth`, in bytes per second, is that of all its `members`
      together, or 0 if it is unlimited; `latency` is in seconds.
    - The run has equal `parts`. `busy` is the share of each that a link is in use, in thousandths,
      and `nbytes` what begins to cross or crosses it, shape (links, parts).

    Large machines are drawn with a box for each node and switch. If some ranks stand for all, the
    links of all ranks are drawn.
    """
    machine = timeline.routed.machine
    course_busy, course_bytes, course_of = courses_of(timeline)
    places, group, remarks = places_of(machine)
    ends = np.stack((group[machine.source], group[machine.target]))
    # Links within a box of one device are none.
    several = np.bincount(group[group >= 0], minlength=1) > 1
    between = (ends[0] != ends[1]) | several[np.maximum(ends[0], 0)]
    drawn = np.flatnonzero((ends >= 0).all(axis=0) & between)
    first, number = distinct_rows(*ends[:, drawn])
    count = len(first)
    bandwidth = machine.bandwidth[drawn]
    weight = np.where(np.isfinite(bandwidth), bandwidth, 1.0)
    total = np.bincount(number, weight, count)
    used = np.flatnonzero(course_of[drawn] >= 0)
    course = course_of[drawn][used]
    busy, nbytes = np.zeros((2, count, PARTS))
    np.add.at(busy, number[used], course_busy[course] * weight[used, None])
    np.add.at(nbytes, number[used], course_bytes[course])
    kept = np.sort(np.argsort(-nbytes.sum(axis=1), kind="stable")[:MOST_LINKS])
    if len(kept) < count:
        remarks = (*remarks, f"The {len(kept)} links with most bytes of {count} are drawn.")
    kinds = np.array([machine.link_kinds[link] for link in drawn.tolist()] or [""])
    names, code = np.unique(kinds, return_inverse=True)
    unlimited = ~np.isfinite(np.bincount(number, bandwidth, count))
    return {
        **places,
        "makespan": timeline.makespan,
        "kinds": tuple(names.tolist()),
        "source": ends[0, drawn][first[kept]].astype(np.int32),
        "target": ends[1, drawn][first[kept]].astype(np.int32),
        "kind": code.ravel()[first[kept]].astype(np.int32),
        "members": np.bincount(number)[kept].astype(np.int32),
        "bandwidth": np.where(unlimited, 0.0, total)[kept],
        "latency": machine.latency[drawn][first[kept]],
        "parts": PARTS,
        "busy": np.round(FULL * busy[kept] / np.maximum(total[kept, None], 1e-300)).astype("i4"),
        "nbytes": np.round(nbytes[kept]),
        "remarks": remarks,
    }


def courses_of(timeline: Timeline) -> tuple[Floats, Floats, Ints]:
    """The courses of links that were simulated: the share of each part of the run in which a link
    is in use, and the bytes that cross it, shape (courses, parts) each; and the course of each link
    of the machine, -1 if nothing crosses it. A message uses a link at the rate of its slowest
    medium."""
    topology, schedule = timeline.routed.topology, timeline.schedule
    operation, link, node = timeline.hops
    gap = np.zeros(topology.links)
    np.maximum.at(gap, topology.crossing_links, topology.medium_gap[topology.link_media])
    nbytes = schedule.nbytes[operation]
    seconds = nbytes / topology.bandwidth[link] + gap[link]
    start = timeline.node_start[node]
    end = timeline.sent[operation] if timeline.sharing == "fair" else start + seconds
    edges = np.linspace(0.0, timeline.makespan or 1.0, PARTS + 1)
    busy, carried = (
        spread(link, start, end, amount, topology.links, edges) for amount in (seconds, nbytes)
    )
    return np.clip(busy / edges[1], 0.0, 1.0), carried, _images(timeline)


def spread(
    row: Ints, start: Floats, end: Floats, amount: Floats, rows: int, edges: Floats
) -> Floats:
    """Amounts by row and part of the time, each spread evenly from its start to its end.

    >>> row, one = np.array([0]), np.array([1.0])
    >>> spread(row, 0.5 * one, 2.5 * one, 8 * one, 1, np.arange(4.0)).tolist()
    [[2.0, 4.0, 2.0]]
    """
    length, passed = np.maximum(end - start, 1e-300), [np.zeros(rows)]
    for edge in (*edges[1:-1], np.inf):
        share = np.clip((edge - start) / length, 0.0, 1.0)
        passed.append(sums(row, amount * share, rows))
    return np.asarray(np.diff(passed, axis=0).T)


def _images(timeline: Timeline) -> Ints:
    """The simulated link of each link of the machine. Of a folded schedule, that is the link of
    the ranks that stand for all."""
    routed, schedule = timeline.routed, timeline.schedule
    machine, fold = routed.machine, schedule.fold
    if fold is None:
        return np.arange(machine.links, dtype=np.int32)
    chosen = np.flatnonzero(schedule.remote)
    columns = schedule.rank, schedule.peer, schedule.lane
    chosen = chosen[distinct_rows(*(column[chosen] for column in columns))[0]]
    elements = fold.shifts.elements[: max(1, IMAGES // max(len(chosen), 1))]
    rank, peer, channel = (column[chosen].astype(np.int64) for column in columns)
    _, links = images_of(fold, machine, (rank, peer, channel), elements)
    simulated = np.concatenate(
        [np.tile(routed.hops(operation), len(elements)) for operation in chosen.tolist()]
    )
    image = np.full(machine.links, -1, dtype=np.int32)
    if len(simulated) == len(links):
        image[links] = simulated
    return image


MOST_BOXES = 128
"""Boxes of a row of a large machine, at most: of more devices, several are one box."""


def places_of(topology: Topology) -> tuple[dict[str, Any], Ints, tuple[str, ...]]:
    """The boxes of a machine as keys of :func:`use_of`, the box of each device or -1, and
    remarks."""
    layout, remarks = None, tuple[str, ...]()
    if len(topology.device_names) <= MOST_DEVICES:
        layout = machine_layout(topology)
    if layout is None or layout.left_out:
        groups, places = _rows(topology)
        rows = [_named(topology, devices) for devices in groups]
        remarks = tuple(_remarks(topology, groups, [kind for _, kind, _ in rows]))
    else:
        places = np.vstack((layout.places.T, layout.widths))
        groups = list(layout.devices[:, None])
        rows = [
            (topology.device_names[k], topology.device_kinds[k], int(topology.node[k]))
            for k in layout.devices.tolist()
        ]
    group = np.full(len(topology.device_names), -1, dtype=np.int32)
    for number, devices in enumerate(groups):
        group[devices] = number
    names, kinds, node = zip(*rows, strict=True)
    words = tuple(sorted(set(kinds)))
    columns = {
        "devices": names,
        "device_kinds": words,
        "device_kind": np.array([words.index(kind) for kind in kinds], dtype=np.int32),
        "node": np.array(node, dtype=np.int32),
        **dict(zip(("x", "y", "width"), places, strict=True)),
    }
    return columns, group, remarks


def _rows(topology: Topology) -> tuple[list[Longs], Floats]:
    """The devices of each box: a row of nodes, or of ranks, and rows of switches above. Of many,
    neighbours are one box. And the middle and the width of each box, shape (3, boxes); a single
    row becomes a circle."""
    start, groups = np.flatnonzero(topology.node >= 0), list[Longs]()
    away = distances(topology, start if len(start) else np.unique(topology.placement))
    places = list[tuple[float, int, int]]()
    rows = np.unique(away[np.isfinite(away)]).tolist()
    for level, row in enumerate(rows):
        devices = np.flatnonzero(away == row)
        node = topology.node[devices]
        # Devices of a node are one thing; others are a thing each, behind all nodes.
        thing = np.where(node >= 0, node, devices + (node.max(initial=0) + 1))
        thing = np.unique(thing, return_inverse=True)[1].ravel()
        count = int(thing.max()) + 1
        shown = min(count, MOST_BOXES)
        groups += [devices[thing * shown // count == number] for number in range(shown)]
        places += [((number + 0.5) / shown, level, shown) for number in range(shown)]
    share, level, count = np.array(places).T
    widest = count.max()
    x, y = share * widest, level * max(2.0, widest / 5)
    if len(rows) == 1:
        x, y = (turn(2 * np.pi * share) * widest / 6 for turn in (np.sin, np.cos))
    return groups, np.stack((x, y, np.minimum(0.8 * widest / count, 3.0)))


def _named(topology: Topology, devices: Longs) -> tuple[str, str, int]:
    nodes = np.unique(topology.node[devices])
    first, last = (topology.device_names[devices[k]] for k in (0, -1))
    if nodes[0] >= 0:
        alone = len(nodes) == 1
        name = f"node {nodes[0]}" if alone else f"nodes {nodes[0]} to {nodes[-1]}"
        return name, "node", int(nodes[0]) if alone else -1
    name = first if len(devices) == 1 else f"{first} to {last}"
    return name, topology.device_kinds[int(devices[0])], -1


def _remarks(topology: Topology, groups: Sequence[Longs], kinds: Sequence[str]) -> Iterator[str]:
    nodes = kinds.count("node")
    if nodes:
        yield "A box in the lowest row is a node: its colour is the mean use of its inner links."
    each = zip(groups, kinds, strict=True)
    several = any(len(devices) > 1 for devices, kind in each if kind != "node")
    if several or nodes < len(np.unique(topology.node)) - 1:
        yield "Some boxes stand for several neighbours: the machine is too large to draw them all."


MEMORY_PARTS = 400
"""Parts of the run: of each, the most that is held at a time counts."""
SHOWN = 64
"""Ranks with a curve of their own, at most."""


def curves_of(memory: MemoryTrace, names: Sequence[str], makespan: float) -> Mapping[str, Any]:
    """The curves of ranks with these names: whole bytes, the most in each of equal parts of the
    run.

    `least`, `mean` and `most` are of the emptiest rank, ranks on average and the fullest one;
    `redundant` are duplicates of all ranks. `held` has a row for each of `rows`. Of many ranks,
    only some have a curve of their own.
    """
    count = len(names)
    chosen = np.unique(np.linspace(0, count - 1, min(count, SHOWN)).round().astype(np.int64))
    low, high, total = np.full(MEMORY_PARTS, np.inf), np.zeros(MEMORY_PARTS), np.zeros(MEMORY_PARTS)
    kept = []
    for rank in range(count):
        peaks = np.round(most_in_parts(*memory.of(rank), makespan))
        low, high, total = np.minimum(low, peaks), np.maximum(high, peaks), total + peaks
        if rank in chosen:
            kept.append(peaks)
    remark = f"{len(chosen)} of {count} ranks have a curve of their own; the band is of all."
    return {
        "makespan": makespan,
        "rows": tuple(names[rank] for rank in chosen.tolist()),
        "held": np.array(kept).reshape(len(chosen), MEMORY_PARTS),
        "least": np.where(np.isfinite(low), low, 0.0),
        "mean": np.round(total / max(count, 1)),
        "most": high,
        "redundant": np.round(most_in_parts(memory.times, memory.redundant, makespan)),
        "remarks": (remark,) * (len(chosen) < count),
    }


def most_in_parts(
    times: Floats, levels: Floats, makespan: float, parts: int = MEMORY_PARTS
) -> Floats:
    """The largest level in each part of the time. From `times[k]` on the level is `levels[k]`.

    >>> most_in_parts(np.array([0.0, 1.5, 1.6]), np.array([1.0, 9.0, 2.0]), 4.0, 4).tolist()
    [1.0, 9.0, 2.0, 2.0]
    """
    edges = np.arange(parts) * ((makespan or 1.0) / parts)
    before = np.searchsorted(times, edges, side="right") - 1
    result = np.where(before >= 0, levels[before], 0.0) if len(levels) else np.zeros(parts)
    place = np.searchsorted(edges, times, side="right") - 1
    inside = (place >= 0) & (times < (makespan or np.inf))
    np.maximum.at(result, place[inside], levels[inside])
    return np.maximum(np.asarray(result, dtype=np.float64), 0.0)
