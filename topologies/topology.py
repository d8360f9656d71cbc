"""A machine as columns: devices, directed links and the media that transfers occupy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from topologies.columns import DeviceNames, MediumNames, Words, entries, owners, repeated
from topologies.columns import Floats as Floats
from topologies.columns import Ints as Ints
from topologies.columns import Longs as Longs
from topologies.columns import Numbers as Numbers
from topologies.errors import InputError

if TYPE_CHECKING:
    import networkx as nx

Flags = npt.NDArray[np.bool_]
Routes = tuple[Ints, Ints]
"""Routes in CSR form: route i is `links[indptr[i]:indptr[i + 1]]`."""
Ends = tuple[int, int, int]
"""The device that sends, the device that receives, and the channel."""
Paths = Literal["first", "link", "hash", "rail"]
"""Which of several equally short routes a message takes.

- "first": the first in device order.
- "link": the first in link order, which on a grid is dimension order.
- "hash": by a hash of sender, receiver and channel, as switches with equal-cost multi-path do.
- "rail": the receiver's number in its node chooses the NICs at both ends, as communication
  libraries do. After a channel for each rank of a node, channels take the next NICs. Switches use
  the hash.
"""
REMEMBERED = 8


def _checked_columns(topology: Topology, checked: Mapping[str, object]) -> Mapping[str, object]:
    """Raises InputError, naming the first value that cannot be, and what would be right.

    What `checked` holds, the columns of a topology that this topology was made of, is not looked at
    again. Returns the columns.
    """

    def changed(*columns: str) -> bool:
        return any(getattr(topology, name) is not checked.get(name) for name in columns)

    devices, links = len(topology.device_names), len(topology.source)
    media = links + len(topology.shared_names)
    for noun, rows, columns in (
        ("device", devices, {"node": "i", "reduction": "f", "copy": "f", "in_network": "b"}),
        ("link", links, {"source": "i", "target": "i", "latency": "f", "assumed": "b"}),
        ("medium", media, {"medium_bandwidth": "f", "medium_gap": "f"}),
        ("", None, {"placement": "i", "link_indptr": "i", "link_media": "i"}),
    ):
        for name, kind in columns.items():
            _check_array(name, getattr(topology, name), kind)
            if rows is not None:
                _check_length(name, getattr(topology, name), rows, noun)
    _check_length("device_kinds", topology.device_kinds, devices, "device")
    _check_length("link_kinds", topology.link_kinds, links, "link")
    for name, noun in (("device_names", "device"), ("shared_names", "medium")):
        names = getattr(topology, name)
        # Device names of a builder refuse a name that is there twice.
        unchecked = changed(name) and not isinstance(names, DeviceNames)
        if unchecked and (twice := repeated(names)) is not None:
            raise InputError(f"{noun} {twice!r} is there twice: names are unique")
    for name in ("placement", "source", "target"):
        if changed(name, "device_names"):
            _check_range(name, getattr(topology, name), devices)
    if changed("source", "target", "device_names"):
        _check_ends(topology.device_names, topology.source, topology.target)
    if changed("link_indptr", "link_media", "source", "shared_names"):
        _check_media(topology.link_indptr, topology.link_media, links, media)
    for name, names, unit in (
        ("medium_bandwidth", topology.medium_names, "B/s"),
        ("medium_gap", topology.medium_names, "s"),
        ("latency", topology.medium_names, "s"),
        ("reduction", topology.device_names, "s/B"),
        ("copy", topology.device_names, "s/B"),
    ):
        if changed(name):
            _check_figures(name, getattr(topology, name), names, unit)
    return {name: column for name, column in vars(topology).items() if not name.startswith("_")}


def _check_array(name: str, values: object, kind: str) -> None:
    """`kind` is that of the dtype."""
    expected = {"i": "int32", "f": "float64", "b": "bool"}[kind]
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name} is a {type(values).__name__}: expected an array of {expected}")
    if values.dtype.kind != kind:
        raise InputError(f"{name} is an array of {values.dtype}: expected one of {expected}")
    if values.ndim != 1:
        raise InputError(f"{name} has {values.ndim} dimensions: expected 1")


def _check_length(
    name: str, values: Sequence[object] | npt.NDArray[np.generic], rows: int, noun: str
) -> None:
    if len(values) != rows:
        raise InputError(f"{name} has {len(values)} values: expected {rows}, one a {noun}")


def _check_range(name: str, values: Ints, end: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < end:
        value = values[(values < 0) | (values >= end)][0]
        raise InputError(f"{name} holds {value}: expected 0 to {end - 1}")


def _check_ends(names: Sequence[str], source: Ints, target: Ints) -> None:
    key = source.astype(np.int64)
    key *= len(names)
    key += target
    key.sort()
    itself = source == target
    again = key[1:] == key[:-1]
    if again.any() or itself.any():
        bad = [*key[1:][again], *np.sort(source[itself].astype(np.int64) * (len(names) + 1))]
        name = f"{names[bad[0] // len(names)]}->{names[bad[0] % len(names)]}"
        raise InputError(
            f"link {name} is there twice or leads nowhere: one link a direction between two devices"
        )


def _check_media(indptr: Ints, crossed: Ints, links: int, media: int) -> None:
    """Every link crosses its own medium first."""
    _check_length("link_indptr", indptr, links + 1, "link and an end")
    if indptr[0] != 0 or indptr[-1] != len(crossed) or (indptr[1:] <= indptr[:-1]).any():
        right = f"expected steps of 1 or more from 0 to {len(crossed)}"
        raise InputError(f"link_indptr runs from {indptr[0]} to {indptr[-1]}: {right}")
    _check_range("link_media", crossed, media)
    wires = crossed if len(crossed) == links else crossed[indptr[:-1]]
    right_wires = wires == np.arange(links, dtype=np.int32)
    if not right_wires.all():
        link = right_wires.argmin()
        raise InputError(
            f"link_media gives link {link} the medium {wires[link]} first: its own comes first, "
            f"medium {link}"
        )


def _check_figures(column: str, values: Floats, names: Sequence[str], unit: str) -> None:
    """Bandwidths are above 0, and may be infinite. All else is at least 0, and finite."""
    above = column == "medium_bandwidth"
    right = values > 0 if above else (values >= 0) & (values < np.inf)
    if not right.all():
        row = int(right.argmin())
        raise InputError(
            f"{column.removeprefix('medium_')} of {names[row]} is {float(values[row])}{unit}: "
            f"it is {'above' if above else 'at least'} 0{unit}"
        )


@dataclass(frozen=True, eq=False)
class Topology:
    """A machine as columns, a row for each device, link and medium.

    :class:`topologies.topology_builder.TopologyBuilder` builds it, and so do the functions of
    :mod:`topologies.shapes`, :mod:`topologies.clusters` and the readers.
    """

    name: str
    device_names: Sequence[str]
    device_kinds: Words
    node: Ints
    """The node of each device; -1 for none."""
    reduction: Floats
    """γ of each device: the seconds to merge a byte into its memory."""
    copy: Floats
    """The seconds of a local copy of a byte on each device."""
    in_network: Flags
    """Whether each device is a switch that reduces and multicasts."""
    placement: Ints
    """The device of each rank."""
    source: Ints
    """The device from which each link leads."""
    target: Ints
    """The device to which each link leads."""
    latency: Floats
    """α of each link in seconds."""
    link_kinds: Words
    assumed: Flags
    """Whether the figures of each link come from the table of link kinds, because the file that was
    read leaves them open."""
    link_indptr: Ints
    """Link k crosses the media `link_media[link_indptr[k]:link_indptr[k + 1]]`."""
    link_media: Ints
    """The media of each link in turn. The first medium of link k is its wire, medium k."""
    shared_names: tuple[str, ...]
    """The names of the media that links share, whose numbers follow those of the wires."""
    medium_bandwidth: Floats
    """β of each medium in bytes a second."""
    medium_gap: Floats
    """g of each medium in seconds a message."""
    paths: Paths = "first"
    notes: tuple[str, ...] = ()
    """Where the figures come from."""
    pinned: Mapping[Ends, tuple[int, ...]] = field(default_factory=dict)
    """Routes that an algorithm chose, whatever `paths` says: the links from one device to another
    on a channel."""
    _checked: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The columns that hold together: `dataclasses.replace` hands them on, so that only those that
    it changes are checked again."""
    _routes: dict[bytes, Routes] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises InputError when the columns do not hold together, also after
        `dataclasses.replace`."""
        if self.paths not in get_args(Paths):
            raise InputError(f"paths is {self.paths!r}: expected first, link, hash or rail")
        object.__setattr__(self, "_checked", _checked_columns(self, self._checked))

    @property
    def ranks(self) -> int:
        """The number of ranks that have a device."""
        return len(self.placement)

    @property
    def links(self) -> int:
        """The number of directed links."""
        return len(self.source)

    @property
    def medium_names(self) -> MediumNames:
        """The name of every medium: "gpu0->switch" for the wire of a link, the shared ones by their
        own."""
        return MediumNames(self.device_names, self.source, self.target, self.shared_names)

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """The topology as a networkx.DiGraph: nodes with a kind, edges with latency and bandwidth
        in SI units."""
        import networkx

        graph: nx.DiGraph[str] = networkx.DiGraph(name=self.name)
        for name, kind in zip(self.device_names, self.device_kinds, strict=True):
            graph.add_node(name, kind=kind)
        for link, kind in enumerate(self.link_kinds):
            ends = self.device_names[self.source[link]], self.device_names[self.target[link]]
            graph.add_edge(
                *ends,
                latency=float(self.latency[link]),
                bandwidth=float(self.bandwidth[link]),
                kind=kind,
            )
        return graph

    @cached_property
    def bandwidth(self) -> Floats:
        """Bytes/s of each link: of the slowest medium that it crosses."""
        if len(self.link_media) == self.links:
            return self.medium_bandwidth[: self.links]
        return np.asarray(
            np.minimum.reduceat(self.medium_bandwidth[self.link_media], self.link_indptr[:-1])
        )

    def _repr_html_(self) -> str:
        from topologies.html_tables import topology_html

        return topology_html(self)

    def media_of(self, link: int) -> Ints:
        """The media that a transfer over `link` occupies: its own wire first, then the shared
        ones."""
        return self.link_media[self.link_indptr[link] : self.link_indptr[link + 1]]

    @property
    def crossing_links(self) -> Ints:
        """The link of each crossing in `link_media`."""
        return owners(self.link_indptr)

    def uses(self, links: Ints) -> Floats:
        """How often transfers over these links cross each medium.

        >>> from topologies.shapes import star
        >>> star(2, bandwidth=1.0).uses(np.array([0, 3, 0])).tolist()
        [2.0, 0.0, 0.0, 1.0]
        """
        count = np.bincount(links, minlength=self.links)[self.crossing_links]
        uses = np.bincount(self.link_media, count, len(self.medium_bandwidth))
        return np.asarray(uses, dtype=np.float64)

    def crossings(self, links: Ints) -> tuple[Longs, Ints]:
        """The place in `links` and the medium of every crossing of a medium, in order.

        >>> from topologies.shapes import star
        >>> star(3, bandwidth=1.0).crossings(np.array([0, 4]))[0].tolist()
        [0, 1]
        """
        place, crossing = entries(self.link_indptr, links)
        return place, self.link_media[crossing]

    def route(self, source_rank: int, target_rank: int, channel: int = 0) -> tuple[int, ...]:
        """The links from one rank to another: least latency, then fewest hops, then as `paths`
        says.

        Raises InputError when there is none.
        """
        ends = np.array([source_rank]), np.array([target_rank])
        return tuple(self.routes(*ends, np.array([channel]))[1].tolist())

    def routes(
        self,
        source_ranks: npt.NDArray[np.integer],
        target_ranks: npt.NDArray[np.integer],
        channels: npt.NDArray[np.integer] | None = None,
    ) -> Routes:
        """Routes of many pairs of ranks, each on its channel (by default 0). The latest requests
        are remembered."""
        from topologies.routing import find_routes

        channel = np.zeros_like(source_ranks) if channels is None else channels
        asked = np.stack((source_ranks, target_ranks, channel)).astype(np.int64)
        key = asked.tobytes()
        if key not in self._routes:
            if len(self._routes) >= REMEMBERED:
                del self._routes[next(iter(self._routes))]
            self._routes[key] = find_routes(self, *asked)
            if self.pinned:
                self._routes[key] = self._as_pinned(asked, *self._routes[key])
        return self._routes[key]

    def _as_pinned(self, asked: Longs, indptr: Ints, links: Ints) -> Routes:
        devices = self.placement[asked[:2]]
        routes = np.split(links, indptr[1:-1])
        for number, ends in enumerate(zip(*devices.tolist(), asked[2].tolist(), strict=True)):
            if ends in self.pinned:
                routes[number] = np.array(self.pinned[ends], dtype=np.int32)
        starts = np.cumsum([0, *map(len, routes)], dtype=np.int32)
        return starts, np.concatenate(routes).astype(np.int32)
