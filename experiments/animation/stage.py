"""Where ranks stand in the film of a collective: on their machine, or in rows."""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import NamedTuple

import numpy as np

from experiments.pictures.machines.machine_layout import machine_layout
from simulator.schedules.routed import Routed
from topologies.errors import InputError
from topologies.topology import Floats

WIDTH, SLOT, HEAD, GAP, APART = 2.4, 0.36, 0.5, 0.55, 1.1
"""Of a card: its width, the height of a slot at most, that of the head, and the gap to the next,
in rows and on a machine."""
SMALL, WIDE, NARROW = 16, 30.0, 11.5
"""Ranks on a picture of their machine at most; its width at most, and that for a phone."""
MARGIN = 0.35
"""Round everything."""
Point = tuple[float, float]
Path = tuple[Point, ...]


class Card(NamedTuple):
    """The size of a rank with its slots. Lengths are units of the drawing."""

    columns: int
    """Columns of slots."""
    rows: int
    """Slots of a column."""
    width: float
    height: float


class Stage(NamedTuple):
    """Places of all that is drawn. The origin is at the top left."""

    width: float
    height: float
    card: Card
    ranks: Floats
    """The middle of the card of each rank, shape (ranks, 2)."""
    ways: tuple[Path, ...]
    """The devices between sender and receiver on each route of the schedule."""
    devices: tuple[tuple[str, float, float, float], ...] = ()
    """The devices that are no ranks: name, middle and width."""
    links: tuple[Path, ...] = ()
    """The ends of links."""


def card_of(slots: int) -> Card:
    """The card of a rank with so many slots."""
    columns = 1 if slots <= 12 else min(16, ceil(slots / 16))
    rows = ceil(slots / columns)
    height = HEAD + min(SLOT * rows, 3.0)
    return Card(columns, rows, min(2 * WIDTH, max(WIDTH, 0.6 * columns)), height)


def stages(routed: Routed, slots: int) -> tuple[Stage, Stage]:
    """The stage for wide windows and that for narrow ones, with cards of so many slots."""
    card = card_of(slots)
    machine = _on_machine(routed, card) if routed.schedule.ranks <= SMALL else None
    wide, narrow = (
        machine if machine and machine.width <= most else _in_rows(routed, card, most)
        for most in (WIDE, NARROW)
    )
    return wide, narrow


def _in_rows(routed: Routed, card: Card, most: float) -> Stage:
    """Cards in rows, a node a row where that fits. Messages go straight."""
    count, size = routed.schedule.ranks, np.array([card.width, card.height])
    fits = max(1, int((most - 2 * MARGIN + GAP) / (card.width + GAP)))
    nodes = np.unique(routed.machine.node[routed.machine.placement[:count]])
    columns = count // len(nodes) if len(nodes) > 1 and count % len(nodes) == 0 else 0
    if not 2 <= columns <= fits:
        # A good shape, and few empty places in the last row.
        square = ceil(sqrt(count * 2 * card.height / card.width))
        columns = min(
            range(1, min(fits, count) + 1),
            key=lambda columns: abs(log(columns / square)) + (-count % columns) / columns,
        )
    place = np.stack((np.arange(count) % columns, np.arange(count) // columns), axis=1)
    ranks = place * (size + GAP) + size / 2 + MARGIN
    width, height = (ranks.max(axis=0) + size / 2 + MARGIN).tolist()
    return Stage(width, height, card, ranks, _straight(routed))


def _on_machine(routed: Routed, card: Card) -> Stage | None:
    """Cards where a picture of the machine has the ranks, with the devices between them; None if
    there is no such picture.

    A single switch is left out: it would hide who sends to whom, as all messages meet there.
    """
    machine, topology, links = routed.machine, routed.topology, np.unique(routed.route_links)
    placed = machine.placement[: routed.schedule.ranks].tolist()
    try:
        where = machine_layout(machine)
    except InputError:
        return None
    pairs = np.stack((topology.source[links], topology.target[links]), axis=1)
    used = sorted({*placed, *pairs.ravel().tolist()})
    direct = len(used) == len(placed) + 1
    used = sorted(placed) if direct else used
    known = {device: place for place, device in enumerate(where.devices.tolist())}
    if len(set(placed)) < len(placed) or not set(used) <= set(known):
        return None
    chosen, other = [known[device] for device in used], ~np.isin(used, placed)
    places = where.places[chosen] * np.array([1.0, -1.0])
    if where.rows:
        # Rows without a device are left out.
        rows = np.round(places[:, 1], 6)
        places[:, 1] = np.searchsorted(np.unique(rows), rows)
    sizes = np.where(other[:, None], (1.9, 0.5), (card.width, card.height))
    scale = _scale(places, sizes)
    bars = other & (where.widths[chosen] > 2)
    sizes[bars, 0] = where.widths[chosen][bars] * scale[0]
    places = places * scale
    low, high = (places - sizes / 2).min(axis=0) - MARGIN, (places + sizes / 2).max(axis=0) + MARGIN
    middles = [(x, y) for x, y in (places - low).tolist()]
    at = dict(zip(used, middles, strict=True))
    width, height = (high - low).tolist()
    ranks = np.array([at[device] for device in placed])
    if direct:
        return Stage(width, height, card, ranks, _straight(routed))
    routes = np.split(topology.target[routed.route_links], routed.route_indptr[1:-1])
    return Stage(
        width,
        height,
        card,
        ranks,
        tuple(tuple(at[device] for device in route.tolist()[:-1]) for route in routes),
        tuple(
            (machine.device_names[device], *at[device], float(sizes[k, 0]))
            for k, device in enumerate(used)
            if other[k]
        ),
        # Each link is drawn once for both directions.
        tuple((at[a], at[b]) for a, b in np.unique(np.sort(pairs), axis=0).tolist()),
    )


def _scale(places: Floats, sizes: Floats) -> Floats:
    """What to stretch the places by in both directions, so that no two boxes overlap."""
    first, second = np.triu_indices(len(places), 1)
    needed = (sizes[first] + sizes[second]) / 2 + APART
    with np.errstate(divide="ignore"):
        across, down = np.maximum(needed / np.abs(places[first] - places[second]), 1e-3).T

    def cost(stretch: float) -> tuple[float, float]:
        """The size of the drawing, and how much to stretch it down."""
        rest = float(down[across > stretch].max(initial=0.5))
        if np.isinf(rest):
            return np.inf, rest
        width, height = np.array([stretch, rest]) * np.ptp(places, axis=0) + sizes.max(axis=0)
        # A good drawing is a little wider than high.
        return max(width / 1.1, height), rest

    best = min(np.unique(across[np.isfinite(across)]).tolist() or [1.0], key=cost)
    return np.array([best, cost(best)[1]])


def _straight(routed: Routed) -> tuple[Path, ...]:
    return ((),) * (len(routed.route_indptr) - 1)
