"""From "hgx_h100:nodes=2,nics=4", "torus:dims=4x4x4" or the name of a file to a topology."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from inspect import signature
from math import prod
from pathlib import Path

import numpy as np

from topologies.clusters import cluster, joined
from topologies.errors import InputError
from topologies.machines import MACHINES
from topologies.placement import placed
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.units import parse_bandwidth, parse_number, parse_seconds, parse_whole, parse_yes

BANDWIDTH, LATENCY = 50e9, 1e-6
"""β and α of a shape's links where nobody says."""


@dataclass(frozen=True)
class Figures:
    """β (bytes/s), α, g (s) and γ (s/B) where they are given; links of machines have their own."""

    bandwidth: float | None = None
    latency: float | None = None
    gap: float | None = None
    reduction: float | None = None


@dataclass(frozen=True)
class Blueprint:
    """A machine yet to be built for a number of ranks. `kind` is "shape", "machine" or "file",
    which is at `path`."""

    text: str
    name: str
    kind: str
    make: Callable[..., Topology]
    options: Mapping[str, object]
    path: Path | None = None

    def build(
        self,
        ranks: int,
        servers: int = 0,
        figures: Figures = Figures(),
        placement: str = "node",
        server_kind: str | None = None,
    ) -> Topology:
        """The topology with `ranks` workers, placed as :func:`topologies.placement.placed` says,
        and servers behind them: on devices of `server_kind`, "gpu" or "cpu"; by default on further
        GPUs where there are some, else on CPUs. The servers of a shape are devices like the
        others."""
        if self.kind == "shape":
            given = {name: value for name, value in vars(figures).items() if value is not None}
            twice = given.keys() & self.options.keys()
            if twice:
                raise InputError(
                    f"{min(twice)} is given twice: as an option of {self.name}, and as "
                    f"--{min(twice)}"
                )
            links = {"bandwidth": BANDWIDTH, "latency": LATENCY} | given | dict(self.options)
            return placed(self.make(ranks + servers, **links), placement, ranks)
        if figures.bandwidth is not None or figures.latency is not None or figures.gap is not None:
            raise InputError(
                f"{self.name} has links of its own: leave out --bandwidth, --latency and --gap"
            )
        machine = self._sized(ranks)
        if machine.ranks < ranks:
            raise InputError(
                f"{self.text} has {machine.ranks} GPUs, not {ranks}: take fewer ranks or more nodes"
            )
        machine = _with_servers(placed(machine, placement, ranks), ranks, servers, server_kind)
        return machine if figures.reduction is None else _merging(machine, figures.reduction)

    def whole(self) -> Topology:
        """The machine as it is, with all its ranks; a shape with as many as its `dims` say, else
        8."""
        if self.kind != "shape":
            return self.make(**self.options)
        dims = self.options.get("dims")
        ranks = prod(dims) if isinstance(dims, tuple) else 8
        return self.make(
            ranks, **({"bandwidth": BANDWIDTH, "latency": LATENCY} | dict(self.options))
        )

    def _sized(self, ranks: int) -> Topology:
        """As many nodes as are asked for, or as the ranks need."""
        if "nodes" in self.options:
            return self.make(**self.options)
        node = self.make(**self.options, nodes=1)
        nodes = -(-ranks // node.ranks)
        return node if nodes == 1 or self.kind == "file" else self.make(**self.options, nodes=nodes)


def find(text: str) -> Blueprint:
    """The blueprint for NAME or FILE, with options after a colon. Raises InputError if there is
    none of that name."""
    name, _, options = text.partition(":")
    if name in SHAPES:
        return _blueprint(text, name, "shape", SHAPES[name], options)
    if name in MACHINES:
        return _blueprint(text, name, "machine", partial(cluster, name), options)
    path, _, options = text.rpartition(":") if ":" in text and not _exists(text) else (text, "", "")
    if path and (_exists(path) or re.search(r"[/.]", path)):
        return replace(
            _blueprint(text, Path(path).name, "file", _from_file(Path(path)), options),
            path=Path(path),
        )
    known = [*SHAPES, *MACHINES]
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(
        f"{name[:80]!r} is no topology and no file: {hint}(simctl topo list shows them: "
        f"{', '.join(known)})"
    )


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _from_file(path: Path) -> Callable[..., Topology]:
    from topologies.readers.files import read

    return partial(joined, read(path))


def _blueprint(
    text: str, name: str, kind: str, make: Callable[..., Topology], options: str
) -> Blueprint:
    taken = {
        option: parameter.default
        for option, parameter in signature(make).parameters.items()
        if option not in ("ranks", "machine", "node", "name")
        and not (kind == "shape" and option == "reduction")
    }
    given: dict[str, object] = {}
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        if key in taken and not equals:
            raise InputError(f"{name}: {key} has no value: write {key}=value, {HELP.get(key, '')}")
        if key not in taken:
            raise InputError(_wrong_option(name, key, taken))
        if key in given:
            raise InputError(f"{text}: {key} is given twice")
        given[key] = _parse(f"{name}:{key}", key, value)
    return Blueprint(text, name, kind, make, given)


def _wrong_option(name: str, key: str, taken: Mapping[str, object]) -> str:
    width = max(map(len, taken), default=0)
    lines = [f"  {option:<{width}}  {HELP.get(option, '')}" for option in taken]
    near = get_close_matches(key, taken, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return "\n".join(
        [f"{name} has no option {key!r}: {hint}write {name}:key=value,... with", *lines]
    )


def _parse(where: str, key: str, text: str) -> object:
    try:
        return PARSERS.get(key, parse_whole)(text)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"0*[1-9]\d{0,8}(x0*[1-9]\d{0,8})*", text, re.ASCII):
        raise InputError(f"{text[:40]!r} is no list of sizes: write it like 4x4x4")
    return tuple(int(part) for part in text.split("x"))


PARSERS: dict[str, Callable[[str], object]] = {
    "bandwidth": parse_bandwidth,
    "latency": parse_seconds,
    "gap": parse_seconds,
    "oversubscription": parse_number,
    "dims": _sizes,
    "periodic": parse_yes,
    "sharp": parse_yes,
    "network": str,
    "port": str,
    "ports": str,
    "paths": str,
}
HELP = {
    "nodes": "how many nodes, like 2 [as many as the ranks need]",
    "nics": "NICs of a node, like 4 [as the machine has]",
    "network": "rails, leaf_spine, fat_tree or dragonfly [as is usual for the machine]",
    "port": "the NICs' network link, like edr, hdr, ndr, slingshot or ethernet100",
    "oversubscription": "ports of a leaf over its uplinks, like 2 [1]",
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
    "ports_per_leaf": "ports of a leaf, like 16",
    "routers": "routers of a group, like 4",
    "hosts": "ranks of a router, like 2",
    "global_links": "links of a router to other groups, like 2",
    "cables": "links between two groups, like 4 [1]",
}


def _merging(machine: Topology, reduction: float) -> Topology:
    """The machine whose GPUs, and whatever else has a rank, merge at `reduction` seconds a byte."""
    merges = machine.device_kinds.are("gpu")
    merges[machine.placement] = True
    return replace(machine, reduction=np.where(merges, reduction, machine.reduction))


def _with_servers(machine: Topology, ranks: int, servers: int, kind: str | None) -> Topology:
    """The machine with its first `ranks` ranks and `servers` more: free GPUs first, then CPUs, or
    of one kind alone."""
    free = {
        "gpu": machine.placement[ranks:],
        "cpu": np.flatnonzero(machine.device_kinds.are("cpu")).astype(np.int32),
    }
    spare = np.concatenate(list(free.values())) if kind is None else free[kind]
    if len(spare) < servers:
        what = "device" if kind is None else kind.upper()
        raise InputError(
            f"{machine.name} has no {what} left for {servers} servers besides {ranks} ranks"
        )
    return replace(machine, placement=np.concatenate((machine.placement[:ranks], spare[:servers])))
