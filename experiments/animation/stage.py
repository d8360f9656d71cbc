"""Where ranks stand in an animation: on their machine, or in rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
import numpy.typing as npt

from experiments.pictures.machines.machine_layout import machine_layout
from experiments.pictures.machines.sketch import Layout
from simulator.schedules.routed import Routed
from topologies.errors import InputError
from topologies.topology import Floats, Topology

WIDTH, SLOT, HEAD, GAP, APART = 2.4, 0.36, 0.5, 0.55, 1.1
"""Of a card: its width, the height of a slot at most, that of the head, and the gap to the next,
in rows and on a machine."""
TALL = 3.0
"""The height of all slots of a card, at most."""
DEVICE = 1.9, 0.5
"""The size of a device that is no rank."""
SMALL, WIDE, NARROW = 16, 30.0, 11.5
"""Ranks on a picture of their machine at most; its width at most, and that for a phone."""
MARGIN, RATIO = 0.35, 1.1
"""Round everything; and the width of a good drawing as a multiple of its height."""
Path = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Card:
    """The size of a rank with its slots. Lengths are units of the drawing."""

    columns: int
    """Columns of slots."""
    rows: int
    """Slots of a column."""
    width: float
    height: float

    @property
    def slot(self) -> tuple[float, float]:
        """Width and height of a slot."""
        return self.width / self.columns, (self.height - HEAD) / self.rows

    def middle(self, place: int) -> tuple[float, float]:
        """The middle of a slot, from the top left corner of the card."""
        width, height = self.slot
        column, row = divmod(place, self.rows)
        return (column + 0.5) * width, HEAD + (row + 0.5) * height


@dataclass(frozen=True)
class Device:
    """A device that is no rank."""

    name: str
    x: float
    y: float
    width: float


@dataclass(frozen=True)
class Stage:
    """Places of all that is drawn. The origin is at the top left."""

    width: float
    height: float
    card: Card
    ranks: Floats
    """The middle of the card of each rank, shape (ranks, 2)."""
    devices: tuple[Device, ...] = ()
    links: tuple[Path, ...] = ()
    """The ends of links."""
    ways: tuple[Path, ...] = ()
    """The devices between sender and receiver on each route of the schedule."""


def card_of(slots: int) -> Card:
    """The card of a rank with so many slots."""
    columns = 1 if slots <= 12 else min(16, ceil(slots / 16))
    rows = ceil(slots / columns)
    height = HEAD + min(SLOT * rows, TALL)
    return Card(columns, rows, min(2 * WIDTH, max(WIDTH, 0.6 * columns)), height)


def stages(routed: Routed, slots: int) -> tuple[Stage, Stage]:
    """The stage for wide windows and that for narrow ones, with cards of so many slots."""
    card, machine = card_of(slots), None
    if routed.schedule.ranks <= SMALL:
        machine = _on_machine(routed, card)
    wide = machine if machine and machine.width <= WIDE else _in_rows(routed, card, WIDE)
    narrow = machine if machine and machine.width <= NARROW else _in_rows(routed, card, NARROW)
    return wide, narrow


def _in_rows(routed: Routed, card: Card, most: float) -> Stage:
    """Cards in rows, a node a row where that fits. Messages go straight."""
    count = routed.schedule.ranks
    fits = max(1, int((most - 2 * MARGIN + GAP) / (card.width + GAP)))
    nodes = np.unique(routed.machine.node[routed.machine.placement[:count]])
    per_node = count // len(nodes) if len(nodes) > 1 and count % len(nodes) == 0 else 0
    square = ceil(sqrt(count * 2 * card.height / card.width))
    columns = per_node if 2 <= per_node <= fits else _columns(count, min(fits, count), square)
    place = np.arange(count)
    step = np.array([card.width + GAP, card.height + GAP])
    ranks = np.stack((place % columns, place // columns), axis=1) * step
    ranks = ranks + np.array([card.width, card.height]) / 2 + MARGIN
    width, height = ranks.max(axis=0) + np.array([card.width, card.height]) / 2 + MARGIN
    return Stage(float(width), float(height), card, ranks, ways=_straight(routed))


def _columns(count: int, most: int, wanted: int) -> int:
    """A number of columns near the wanted one that leaves few places of the last row empty."""

    def cost(columns: int) -> float:
        return abs(log(columns / wanted)) + (-count % columns) / columns

    return min(range(1, most + 1), key=cost)


def _on_machine(routed: Routed, card: Card) -> Stage | None:
    """Cards where a picture of the machine has the ranks, with the devices between them; None if
    there is no such picture.

    A single switch is left out: it would hide who sends to whom, as all messages meet there.
    """
    machine, count = routed.machine, routed.schedule.ranks
    placed = machine.placement[:count].tolist()
    try:
        where = machine_layout(machine)
    except InputError:
        return None
    used = sorted({*placed, *_devices(routed).tolist()})
    direct = len(used) == len(placed) + 1
    used = sorted(placed) if direct else used
    known = {device: place for place, device in enumerate(where.devices.tolist())}
    if len(set(placed)) < count or not set(used) <= set(known):
        return None
    places = _flipped(where, [known[device] for device in used])
    widths = where.widths[[known[device] for device in used]]
    sizes = np.array([DEVICE] * len(used))
    sizes[np.isin(used, placed)] = card.width, card.height
    scale = _scale(places, sizes)
    bars = ~np.isin(used, placed) & (widths > 2)
    sizes[bars, 0] = widths[bars] * scale[0]
    places = places * scale
    low, high = (places - sizes / 2).min(axis=0) - MARGIN, (places + sizes / 2).max(axis=0) + MARGIN
    places -= low
    at = {device: (float(x), float(y)) for device, (x, y) in zip(used, places, strict=True)}
    devices = tuple(
        Device(machine.device_names[device], *at[device], float(sizes[used.index(device), 0]))
        for device in used
        if device not in placed
    )
    width, height = high - low
    ranks = np.array([at[device] for device in placed])
    return Stage(
        float(width),
        float(height),
        card,
        ranks,
        devices,
        () if direct else _links(machine, routed, at),
        _straight(routed) if direct else _ways(routed, at),
    )


def _devices(routed: Routed) -> npt.NDArray[np.int64]:
    """The devices on routes."""
    links, topology = np.unique(routed.route_links), routed.topology
    return np.union1d(topology.source[links], topology.target[links]).astype(np.int64)


def _flipped(where: Layout, chosen: list[int]) -> Floats:
    """The places of some devices, from top to bottom. Rows without a device are left out."""
    places = where.places[chosen] * np.array([1.0, -1.0])
    if where.rows:
        rows = np.round(places[:, 1], 6)
        places[:, 1] = np.searchsorted(np.unique(rows), rows)
    return np.asarray(places)


def _scale(places: Floats, sizes: Floats) -> Floats:
    """What to stretch the places by in both directions, so that no two boxes overlap."""
    first, second = np.triu_indices(len(places), 1)
    away = np.abs(places[first] - places[second])
    needed = (sizes[first] + sizes[second]) / 2 + APART
    with np.errstate(divide="ignore"):
        factor = np.maximum(needed / away, 1e-3)
    across, down = factor.T
    extent = np.ptp(places, axis=0)
    best, least = np.ones(2), np.inf
    for stretch in np.unique(across[np.isfinite(across)]).tolist() or [1.0]:
        rest = float(down[across > stretch].max(initial=0.5))
        if np.isinf(rest):
            continue
        width, height = np.array([stretch, rest]) * extent + sizes.max(axis=0)
        if max(width / RATIO, height) < least:
            best, least = np.array([stretch, rest]), max(width / RATIO, height)
    return best


def _links(
    topology: Topology, routed: Routed, at: dict[int, tuple[float, float]]
) -> tuple[Path, ...]:
    """The links on routes, each once for both directions."""
    links = np.unique(routed.route_links)
    pairs = zip(topology.source[links].tolist(), topology.target[links].tolist(), strict=True)
    return tuple((at[a], at[b]) for a, b in sorted({(min(pair), max(pair)) for pair in pairs}))


def _ways(routed: Routed, at: dict[int, tuple[float, float]]) -> tuple[Path, ...]:
    """What each route passes between its ends."""
    topology, links = routed.topology, routed.route_links
    parts = np.split(topology.target[links], routed.route_indptr[1:-1])
    return tuple(tuple(at[device] for device in part.tolist()[:-1]) for part in parts)


def _straight(routed: Routed) -> tuple[Path, ...]:
    """Ways that pass nothing."""
    return ((),) * (len(routed.route_indptr) - 1)
