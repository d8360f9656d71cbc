"""The page that plays a film, and the trees along which slots of a collective are sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from experiments.animation.film import Act, Canvas, Film, Look, Stripe, TimedShape, rank_colours
from experiments.answer_blocks import Facts
from experiments.output import Value, counted
from experiments.pages import page as pages
from experiments.pages.page import pack
from simulator.schedules.schedule import Schedule
from topologies.columns import plain_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TREE_NOTE = (
    "A circle is a rank. Data go up a tree to be merged, and down to be copied. Each slot goes "
    "along one tree."
)
Edge = tuple[int, int]


def film_page(
    film: Film, name: str, parameters: Mapping[str, Value], figures: Sequence[pages.Figure] = ()
) -> pages.Page:
    """The page with its title, the options of the command and further pictures."""
    shown = [[key, str(value)] for key, value in parameters.items() if value]
    scene = pages.Scene(
        "Animation", "film", film_data(film), film.note, helpers=("canvas", "player")
    )
    return pages.Page(name, film.facts, [scene, *figures, Facts("Parameters", shown)])


def film_data(film: Film) -> dict[str, object]:
    """What the script draws."""
    looks, stripes = dict[Look, int](), dict[Stripe, int]()
    return {
        "acts": [_act(act, looks) for act in film.acts],
        "looks": [_look(look, stripes) for look in looks],
        "stripes": list(stripes),
        "layouts": [_layout(layout) for layout in film.layouts],
        "legend": [key._asdict() for key in film.legend],
    }


def _look(look: Look, stripes: dict[Stripe, int]) -> dict[str, object]:
    """What is unusual of a look, with the numbers of its stripes."""
    every = zip(Look._fields, look, Look(), strict=True)
    unusual: dict[str, object] = {name: value for name, value, usual in every if value != usual}
    numbers = [stripes.setdefault(stripe, len(stripes)) for stripe in look.stripes]
    return unusual | {"stripes": numbers}


def _layout(layout: Canvas) -> dict[str, object]:
    columns = layout.boxes.T.astype(np.float32)
    sides = dict(zip(("left", "top", "width", "height"), columns, strict=True))
    return {**layout._asdict(), "boxes": pack(sides)}


def _act(act: Act, looks: dict[Look, int]) -> dict[str, object]:
    columns = dict(zip(TimedShape._fields, map(list, zip(*act.shapes, strict=True)), strict=True))
    columns["look"] = [looks.setdefault(look, len(looks)) for look in columns["look"]]
    packed = pack({name: np.array(column) for name, column in columns.items()})
    figures = [
        figure._asdict()
        | {"moments": None, "values": pack({"moments": figure.moments, "values": figure.values})}
        for figure in act.figures
    ]
    every = {field.name: getattr(act, field.name) for field in fields(act)}
    return {**every, "shapes": packed, "figures": figures}


def trees(schedule: Schedule) -> list[tuple[Edge, ...]]:
    """The trees of all ranks that slots are sent along, as edges from parents to children; none if
    they are many, or a slot is sent along anything else.

    >>> from simulator.collectives import find
    >>> trees(find("tree").build(4, 1.0)), trees(find("ring").build(4, 1.0))
    ([((0, 1), (0, 2), (2, 3))], [])
    """
    import networkx

    edges = defaultdict[int, set[Edge]](set)
    sent = (schedule.rank != schedule.peer) & (schedule.source >= 0)
    columns = schedule.source, schedule.reduces, schedule.rank, schedule.peer
    for slot, up, rank, peer in plain_rows(*(column[sent] for column in columns)):
        edges[slot].add((peer, rank) if up else (rank, peer))
    kinds = sorted({tuple(sorted(pairs)) for pairs in edges.values()})
    # Of more trees, as a ring has of the parts that it gathers, none is shown.
    if len(kinds) > 2 or any(len(pairs) != schedule.ranks - 1 for pairs in kinds):
        return []
    are_trees = all(networkx.is_arborescence(networkx.DiGraph(pairs)) for pairs in kinds)
    return kinds if are_trees else []


def trees_figures(schedule: Schedule) -> list[pages.Figure]:
    """A picture of the trees for a page, if there are any."""
    if not (kinds := trees(schedule)):
        return []
    from experiments.pictures.figures import to_image

    image = to_image(tree_figure(schedule, kinds))
    return [pages.Figure(counted(len(kinds), "tree"), image, TREE_NOTE)]


def tree_figure(schedule: Schedule, kinds: list[tuple[Edge, ...]]) -> Figure:
    """The trees side by side: a rank is as far to the right as its number says."""
    from matplotlib.figure import Figure
    from networkx import DiGraph, single_source_shortest_path_length

    from experiments.pictures.timelines.palette import ink_on

    figure, colours = Figure(figsize=(10, 3)), rank_colours(schedule.ranks)
    for place, edges in enumerate(kinds, 1):
        (root,) = {parent for parent, _ in edges} - {child for _, child in edges}
        depth = single_source_shortest_path_length(DiGraph(edges), root)
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
