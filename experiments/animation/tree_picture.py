"""The colours of ranks, and a picture of the trees along which slots are sent."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from experiments.output import counted
from experiments.pages import page as pages
from simulator.schedules.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#d55e00", "#f0e442", "#8a8f98"),
)
"""After Okabe and Ito: a colour for each of eight ranks."""
SHADES = ((255, 0.45), (0, 0.35), (255, 0.72))
"""For further ranks: mixed with white (255) or black (0), and how much of it."""


def rank_colours(count: int) -> list[str]:
    """A colour for each rank. From the ninth on they are shades of the first eight."""
    colours = [*BASE, *(_mixed(colour, *shade) for shade in SHADES for colour in BASE)]
    return [colours[rank % len(colours)] for rank in range(count)]


def _mixed(colour: str, ground: int, share: float) -> str:
    parts = bytes.fromhex(colour[1:])
    return f"#{bytes(round(v * (1 - share) + ground * share) for v in parts).hex()}"


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
    return kinds if all(map(depths_of, kinds)) else []


def depths_of(edges: tuple[Edge, ...]) -> dict[int, int]:
    """How far each rank is from the root; none if the edges are not a tree."""
    parents = {child: parent for parent, child in edges}
    depth = {parent: 0 for parent, _ in edges if parent not in parents}
    for _ in edges:
        depth |= {child: depth[up] + 1 for child, up in parents.items() if up in depth}
    return depth if len(depth) == len(edges) + 1 == len(parents) + 1 else {}


def trees_figures(schedule: Schedule) -> list[pages.Figure]:
    """A picture of the trees for a page, if there are any."""
    if not (kinds := trees(schedule)):
        return []
    from experiments.pictures.figure_file import inline_svg

    title = counted(len(kinds), "tree")
    svg = inline_svg(tree_figure(schedule, kinds), "trees", title)
    return [pages.Figure(title, svg, NOTE)]


def tree_figure(schedule: Schedule, kinds: list[tuple[Edge, ...]]) -> Figure:
    """The trees side by side: a rank is as far to the right as its number says."""
    from matplotlib.figure import Figure

    from experiments.pictures.timelines.palette import ink_on

    figure, colours = Figure(figsize=(10, 3)), rank_colours(schedule.ranks)
    for place, edges in enumerate(kinds, 1):
        depth = depths_of(edges)
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
