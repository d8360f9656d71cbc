"""From "hgx_h100:nodes=2,nics=4", "torus:dims=4x4x4" or the name of a file to a topology."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import signature
from math import log2, prod
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from topologies.clusters import MACHINES, cluster, joined
from topologies.columns import distinct, places_in_groups
from topologies.errors import InputError, nearest_name
from topologies.option_text import Parser, parse_pairs
from topologies.resources import Need, check
from topologies.shapes import SHAPES
from topologies.topology import Paths, Topology
from topologies.units import (
    format_bandwidth,
    format_seconds,
    parse_bandwidth,
    parse_number,
    parse_seconds,
    parse_whole,
    parse_yes,
)
from topologies.variants import Placement, placed

RACK, USED = 72, 64
"""GPUs of a rack of NVLink, and those of it that jobs use whose groups of 16 to 64 ranks stay whole
(NVIDIA's published runs on GB200)."""
ALIASES = {"gb200": "nvl72", "hgx_b200": "b200"}
"""Second names of machines."""
BANDWIDTH, LATENCY = 50e9, 1e-6
"""β and α of a shape's links, if the user does not say."""
Kind = Literal["shape", "machine", "file"]


@dataclass(frozen=True)
class Blueprint:
    """A machine that can be built for any number of ranks: the value of `--topology`."""

    text: str
    """How the user writes it, like "hgx_h100:nodes=2"."""
    name: str
    """The name of a shape or machine, or of a file."""
    kind: Kind
    make: Callable[..., Topology] = field(compare=False)
    """The function that builds it from its options; that of a shape takes the ranks first."""
    options: Mapping[str, object]
    """The values of the options, by name."""
    reduction: float | None = None
    """γ of every rank in seconds a byte. None: that of the devices."""
    placement: Placement = "node"
    """Which rank runs on which device."""
    prefix: bool = False
    """Whether the placement is of all ranks that there may be: fewer take its first places."""
    force: bool = False
    """Whether to build it where the memory is likely too small."""

    def with_options(self, **options: object) -> Blueprint:
        """The same machine with other options, like `nodes=2`."""
        return replace(self, options={**self.options, **options})

    def with_links(
        self,
        bandwidth: float | None = None,
        latency: float | None = None,
        gap: float | None = None,
    ) -> Blueprint:
        """The same shape with other links: β in bytes a second, α and g in seconds. None changes
        nothing.

        >>> find("ring").with_links(latency=2e-6).options
        {'latency': 2e-06}

        Raises InputError for a machine or a file, whose links are known.
        """
        figures = {"bandwidth": bandwidth, "latency": latency, "gap": gap}
        changes = {name: value for name, value in figures.items() if value is not None}
        if changes and self.kind != "shape":
            raise InputError(
                f"{self.name} has links of its own: leave out --bandwidth, --latency and --gap"
            )
        return self.with_options(**changes) if changes else self

    def for_job(self, ranks: int, nodes: int) -> Blueprint:
        """The machine for a job of `ranks` ranks on `nodes` nodes, as many ranks on each: it has
        so many nodes, and the ranks take the first GPUs of each.

        Options and placements that the user wrote stay as they are. Nodes of at most four ranks are
        trays of a rack.
        """
        if self.is_rack and ranks <= 4 * nodes:
            nodes = -(-ranks // RACK)
        if (self.kind, self.name) == ("shape", "nodes") and nodes > 0:
            return self.with_options(per_node=-(-ranks // nodes))
        if self.kind == "shape" or self.placement != "node" or nodes < 2 or ranks % nodes:
            return self
        per_node, whole = ranks // nodes, self.whole()
        size = whole.ranks // max(len(distinct(whole.node)) - int((whole.node < 0).any()), 1)
        if per_node >= size:
            return self
        places = tuple(node * size + place for node in range(nodes) for place in range(per_node))
        machine = replace(self, placement=places)
        return machine if "nodes" in self.options else machine.with_options(nodes=nodes)

    def for_training(self, ranks: int) -> Blueprint:
        """The machine for `ranks` ranks that train. Of each of several racks it uses 64 GPUs if the
        ranks are a multiple of 64, or a multiple of 16 that racks of 72 do not fill: otherwise
        their ends would cut groups of 16, 32 or 64 ranks.

        >>> find("nvl72").for_training(256).options, find("nvl72").for_training(144).options
        ({'used': 64}, {})

        `used` and a placement that the user wrote stay as they are.
        """
        nodes, usual = self.options.get("nodes"), self.placement == "node"
        if not self.is_rack or ranks <= RACK or "used" in self.options or not usual:
            return self
        if isinstance(nodes, int) and ranks > USED * nodes:
            return self
        cut = ranks % USED == 0 or (ranks % 16 == 0 and ranks % RACK != 0)
        return self.with_options(used=USED) if cut else self

    @property
    def is_rack(self) -> bool:
        """Whether a node of it is a rack of NVLink."""
        return self.kind == "machine" and MACHINES[self.name].gpus == RACK

    def build(self, ranks: int, servers: int = 0, server_kind: str | None = None) -> Topology:
        """The topology with `ranks` workers and the servers behind them.

        Servers run on devices of `server_kind`, "gpu" or "cpu"; by default on further GPUs where
        the machine has them, else on CPUs. The servers of a shape are devices like the others.
        """
        if self.kind == "shape":
            return placed(self._shape(ranks + servers), self.placement, ranks)
        machine = self._sized(ranks)
        if machine.ranks < ranks:
            raise InputError(
                f"{self.text} has {machine.ranks} GPUs, not {ranks}: take fewer ranks or more nodes"
            )
        placement = self.placement
        if self.prefix and not isinstance(placement, str):
            placement = placement[:ranks]
        machine = _with_servers(placed(machine, placement, ranks), ranks, servers, server_kind)
        if self.reduction is None:
            return machine
        # GPUs merge, and whatever else has a rank.
        merges = machine.device_kinds.are("gpu")
        merges[machine.placement] = True
        return replace(machine, reduction=np.where(merges, self.reduction, machine.reduction))

    def whole(self) -> Topology:
        """The machine with all its ranks; a shape with as many as its `dims` say, else 8."""
        if self.prefix:
            return self.build(len(self.placement))
        if self.kind != "shape":
            return self._nodes()
        dims = self.options.get("dims")
        return self._shape(prod(dims) if isinstance(dims, tuple) else 8)

    @cached_property
    def size(self) -> int | None:
        """The number of ranks, where the user fixes it: by a file, nodes=4 or dims=4x4x4."""
        if self.prefix:
            return len(self.placement)
        fixed = self.kind == "file" or self.options.keys() & {"nodes", "dims"}
        return self.whole().ranks if fixed else None

    @property
    def description(self) -> str:
        """One line: the machine, and for a shape its links.

        >>> find("star").description
        'machine: star (every rank on one non-blocking switch), links of 50GB/s and 1us'
        """
        if self.kind != "shape":
            return f"machine: {self.text}"
        options: dict[str, Any] = {"bandwidth": BANDWIDTH, "latency": LATENCY, **self.options}
        links = f"{format_bandwidth(options['bandwidth'])} and {format_seconds(options['latency'])}"
        gap = f", gap {format_seconds(options['gap'])}" if options.get("gap") else ""
        clause = " ".join(re.split("[:;.]", self.make.__doc__ or "")[0].split())
        shape = "" if ":" in self.text else f" ({clause[:1].lower()}{clause[1:]})"
        return f"machine: {self.text}{shape}, links of {links}{gap}"

    @property
    def has_default_links(self) -> bool:
        """Whether it is a shape and the user does not say how fast its links are."""
        return self.kind == "shape" and not self.options.keys() & {"bandwidth", "latency"}

    def _shape(self, ranks: int) -> Topology:
        figures = {"bandwidth": BANDWIDTH, "latency": LATENCY, "reduction": self.reduction or 0.0}
        make = partial(self.make, **figures | dict(self.options))
        if not self.force:
            check_machine(f"{self.text} of {ranks} ranks", make, ranks)
        return make(ranks)

    def _sized(self, ranks: int) -> Topology:
        if "nodes" in self.options:
            return self._nodes()
        node = self._nodes(nodes=1)
        nodes = -(-ranks // node.ranks)
        return node if nodes == 1 or self.kind == "file" else self._nodes(nodes=nodes)

    def _nodes(self, **options: object) -> Topology:
        parameters: dict[str, Any] = {**self.options, **options}
        paths, used = parameters.pop("paths", None), parameters.pop("used", None)
        nodes = parameters.pop("nodes", 1)
        make = partial(self.make, **parameters)
        if not self.force:
            check_machine(f"{nodes} nodes of {self.name}", lambda few: make(nodes=few), nodes)
        topology = make(nodes=nodes)
        if used is not None:
            topology = _first_of_nodes(topology, used)
        return topology if paths is None else replace(topology, paths=paths)


def find(text: str) -> Blueprint:
    """The blueprint for NAME or FILE, with options after a colon.

    Raises InputError if the name is unknown and is no file.
    """
    name, _, options = text.partition(":")
    name = ALIASES.get(name, name)
    if name in SHAPES:
        return _blueprint(text, name, "shape", SHAPES[name], options)
    if name in MACHINES:
        return _blueprint(text, name, "machine", partial(cluster, name), options)
    file, options = text, ""
    if ":" in text and not exists(text):  # the name of a file may have colons, too
        file, _, options = text.rpartition(":")
    if file and (exists(file) or re.search(r"[/.]", file)):
        from topologies.readers.files import read

        path = Path(file)
        return _blueprint(text, path.name, "file", partial(joined, read(path)), options)
    names = [*SHAPES, *MACHINES]
    hint = nearest_name(name, names, f"simctl list machines shows them: {', '.join(names)}")
    raise InputError(f"no topology or file {name[:80]!r}: {hint}")


def exists(path: str) -> bool:
    """Whether there is such a file; False for text that cannot be a path."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _blueprint(
    text: str, name: str, kind: Kind, make: Callable[..., Topology], options: str
) -> Blueprint:
    helps = {key: HELP[key] for key in option_names(make)}
    parsers = {key: PARSERS.get(key, parse_whole) for key in helps}
    return Blueprint(text, name, kind, make, parse_pairs(options, name, parsers, helps))


def option_names(make: Callable[..., Topology]) -> list[str]:
    """The options of a shape, or of a function that joins nodes, as the user writes them."""
    parameters = [*signature(make).parameters]
    if "network" in parameters:
        parameters += signature(joined).parameters
    names = [name for name in dict.fromkeys(parameters) if name in HELP]
    return [*names, "paths", "used"] if "nodes" in names else names


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"0*[1-9]\d{0,8}(x0*[1-9]\d{0,8})*", text, re.ASCII):
        raise InputError(f"{text[:40]!r} is no list of sizes: write it like 4x4x4")
    return tuple(int(part) for part in text.split("x"))


def _paths(text: str) -> str:
    if text not in get_args(Paths):
        raise InputError(f"{text[:40]!r} names no paths: write first, link, hash or rail")
    return text


PARSERS: dict[str, Parser] = {
    "bandwidth": parse_bandwidth,
    "latency": parse_seconds,
    "gap": parse_seconds,
    "oversubscription": parse_number,
    "dims": _sizes,
    "periodic": parse_yes,
    "p2p": parse_yes,
    "sharp": parse_yes,
    "multicast": parse_yes,
    "network": str,
    "port": str,
    "ports": str,
    "paths": _paths,
}
HELP = {
    "nodes": "how many nodes, like 2 [as many as the ranks need]",
    "nics": "NICs of a node, like 4 [as the machine has]",
    "p2p": "no: GPUs reach each other and NICs through the host's memory alone [yes]",
    "used": "GPUs of a node that ranks take, the first ones, like 64 [all]",
    "network": "rails, leaf_spine, fat_tree or dragonfly [as is usual for the machine]",
    "port": "the NICs' network link, like edr, hdr, ndr, roce400, slingshot or ethernet100",
    "oversubscription": "ports of a leaf over its uplinks, like 2 [1]",
    "nodes_per_leaf": "nodes on a leaf, or on the leaves of a group of rails, like 4",
    "paths": "rail, hash, link or first: which of several equal routes [rail]",
    "sharp": "yes: the network's switches reduce and multicast [no]",
    "bandwidth": "β of a link, like 50GB/s",
    "latency": "α of a link, like 1us",
    "gap": "g of a link, like 0us",
    "dims": "ranks along each dimension, like 4x4x4",
    "periodic": "yes: wires from end to end [no]",
    "branching": "children of a rank, like 2",
    "ports": "peer (a port a peer) or one",
    "k": "ports of a switch, like 4",
    "spines": "how many spines, like 4",
    "per_node": "ranks of a node, like 4 [8]",
    "multicast": "yes: switches in nodes reduce and multicast [no]",
    "ports_per_leaf": "ports of a leaf, like 16",
    "routers": "routers of a group, like 4",
    "hosts": "ranks of a router, like 2",
    "global_links": "links of a router to other groups, like 2",
    "cables": "links between two groups, like 4 [1]",
}


def _first_of_nodes(machine: Topology, used: int) -> Topology:
    """The machine with ranks on the first `used` GPUs of each node."""
    node = machine.node[machine.placement]
    number = places_in_groups(node)
    most = int(number.max()) + 1
    if not 1 <= used <= most:
        raise InputError(f"used is {used}: a node has {most} GPUs, take 1 to {most}")
    return replace(machine, placement=machine.placement[number < used])


def _with_servers(machine: Topology, ranks: int, servers: int, kind: str | None) -> Topology:
    """The machine with its first `ranks` ranks and `servers` more: free GPUs first, then CPUs, or
    of one kind alone."""
    free = {
        "gpu": machine.placement[ranks:],
        "cpu": np.flatnonzero(machine.device_kinds.are("cpu")).astype(np.int32),
    }
    spare = np.concatenate(list(free.values())) if kind is None else free[kind]
    if len(spare) < servers:
        noun = "device" if kind is None else kind.upper()
        wanted = f"{servers} server{'' if servers == 1 else 's'}"
        raise InputError(
            f"{machine.name} has no {noun} left for {wanted} besides {ranks} ranks: take fewer "
            f"ranks, or a larger machine"
        )
    return replace(machine, placement=np.concatenate((machine.placement[:ranks], spare[:servers])))


SURE = 1024
"""Ranks or nodes of a machine that fits into any memory."""
COUNTED = 32, 64
"""Ranks or nodes of machines that tell how many links a larger one has."""
LINK_NEED = Need(3e-7, 160.0)
"""To build a link, and to hold it."""


def check_machine(subject: str, make: Callable[[int], Topology], number: int) -> None:
    """Raise InputError if a machine of so many ranks or nodes, `make(number)`, is too large: its
    links are those of small machines, extended as a power."""
    if number <= SURE:
        return
    try:
        few, many = (make(small).links for small in COUNTED)
    except InputError:
        return  # small machines do not have these options
    links = many * (number / COUNTED[1]) ** (log2(many / few) / log2(COUNTED[1] / COUNTED[0]))
    check(subject, Need(links * LINK_NEED.seconds, links * LINK_NEED.nbytes), "take fewer")
