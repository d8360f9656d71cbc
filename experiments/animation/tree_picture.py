"""A picture of the trees that the slots of a collective are sent along."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx
from matplotlib.figure import Figure

from experiments.animation.colours import rank_colours
from experiments.pictures.timelines.palette import ink_on
from simulator.schedules.schedule import Schedule

MOST = 2
"""Of more trees, as a ring has of the parts that it gathers, none is shown."""
NOTE = (
    "A circle is a rank. Data go up a tree to be merged, and down to be copied. Each slot goes "
    "along one tree."
)
Edge = tuple[int, int]


def trees(schedule: Schedule) -> list[tuple[Edge, ...]]:
    """The trees of all ranks that slots are sent along, as edges from parents to children; none if
    they are many, or a slot is sent along anything else.

    >>> from simulator.collectives import find
    >>> trees(find("tree").build(4, 1.0)), trees(find("ring").build(4, 1.0))
    ([((0, 1), (0, 2), (2, 3))], [])
    """
    edges = defaultdict[int, set[Edge]](set)
    sent = (schedule.rank != schedule.peer) & (schedule.source >= 0)
    columns = schedule.source, schedule.reduces, schedule.rank, schedule.peer
    for slot, up, rank, peer in zip(*(column[sent].tolist() for column in columns), strict=True):
        edges[slot].add((peer, rank) if up else (rank, peer))
    kinds = sorted({tuple(sorted(pairs)) for pairs in edges.values()})
    if len(kinds) > MOST or any(len(pairs) != schedule.ranks - 1 for pairs in kinds):
        return []
    return kinds if all(nx.is_arborescence(nx.DiGraph(pairs)) for pairs in kinds) else []


def tree_figure(schedule: Schedule, kinds: list[tuple[Edge, ...]]) -> Figure:
    """The trees side by side: a rank is as far to the right as its number says."""
    figure, colours = Figure(figsize=(10, 3)), rank_colours(schedule.ranks)
    for place, edges in enumerate(kinds, 1):
        graph = nx.DiGraph(edges)
        root = next(rank for rank, parents in graph.in_degree if not parents)
        depth = nx.single_source_shortest_path_length(graph, root)
        axes = figure.add_subplot(1, len(kinds), place)
        axes.set_axis_off()
        axes.margins(0.08, 0.15)
        axes.invert_yaxis()
        for ends in edges:
            axes.plot(
                ends, [depth[rank] for rank in ends], color="#57606a", linewidth=1.2, zorder=1
            )
        for rank, row in depth.items():
            axes.scatter(rank, row, s=2600 / schedule.ranks**0.8, color=colours[rank], zorder=2)
            ink = ink_on(colours[rank])
            axes.text(rank, row, f"{rank}", color=ink, size=8, ha="center", va="center")
    return figure
