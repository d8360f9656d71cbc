"""Where points are: collective, algorithm, ranks, nodes, size and messages; how far apart they are;
and why a prediction for a point is unsure.

If the curve of message costs is off at a size, all runs with messages of this size are off alike:
each by the share of its time that these messages take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.topology import Flags, Floats, Numbers
from topologies.units import format_bytes

OCTAVES = 48
"""Powers of 2 bytes that are told apart. Longer messages count as of the longest."""
LIKENESS_LENGTH = 1.5
"""The distance of two sizes, in powers of 2, at which their likeness has fallen to 1/sqrt(e)."""
Rows = Flags | Numbers
GROWTH = 1.5
"""How the variance grows with the doublings: 1 if each is off by itself, and 2 if all are off
alike."""


@dataclass(frozen=True, eq=False)
class MeasuredPlaces:
    """Points as columns, each of shape (points,)."""

    collective: npt.NDArray[np.str_]
    algorithm: npt.NDArray[np.str_]
    """The algorithm that ran."""
    ranks: Floats
    nodes: Floats
    nbytes: Floats
    """V."""
    messages: Floats
    """The shares of the time that messages of each size take, shape (points, OCTAVES)."""

    def __len__(self) -> int:
        return len(self.nbytes)

    def take(self, chosen: Rows) -> MeasuredPlaces:
        """Some of the points."""
        return MeasuredPlaces(*(column[chosen] for column in self._columns))

    def and_also(self, others: MeasuredPlaces) -> MeasuredPlaces:
        """These points, then others."""
        pairs = zip(self._columns, others._columns, strict=True)
        return MeasuredPlaces(*(np.concatenate(pair) for pair in pairs))

    @property
    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        named = self.collective, self.algorithm, self.ranks, self.nodes, self.nbytes
        return *named, self.messages


class Apart(NamedTuple):
    """How far apart the points of two sets are, shape (left, right) each."""

    size: Floats
    """|log| of the ratio of sizes."""
    ranks: Floats
    """|log| of the ratio of ranks."""
    collective: Flags
    """Whether the collective is the same."""
    algorithm: Flags
    """Whether the algorithm is the same too."""
    allocation: Flags
    """Whether ranks and nodes are the same."""
    messages: Floats
    """How far the same messages make up both."""

    def take(self, left: Rows, right: Rows) -> Apart:
        """Some of the points."""
        return Apart._make(column[left][:, right] for column in self)


class Beyond(NamedTuple):
    """How far points are outside what was seen, shape (points,) each."""

    job: Floats
    """1 for ranks and nodes on which no job was measured."""
    more_ranks: Floats
    """The doublings of ranks or nodes, whichever are more, to the power GROWTH. A run over several
    nodes is compared with such runs, and a run on one node with those, if any were seen."""
    more_bytes: Floats
    """Doublings of the size."""
    network: Floats
    """1 over several nodes if only single nodes were seen, or the reverse."""
    other_algorithm: Floats
    """1 if the algorithm was not seen."""
    other_collective: Floats
    """1 if the collective was not seen."""


def measured_as(name: str) -> str:
    """The name of an algorithm among measured runs. A ring or chain of a library takes all NICs of
    a node, so `rings` counts as `ring`, and `chains` as `chain`.

    >>> measured_as("rings_all_gather"), measured_as("chains_reduce"), measured_as("tree")
    ('ring_all_gather', 'chain_reduce', 'tree')
    """
    return re.sub("^(ring|chain)s", r"\1", name)


def place(
    collective: str,
    algorithm: str,
    ranks: int,
    nodes: float,
    nbytes: float,
    messages: Floats | None = None,
) -> MeasuredPlaces:
    """One point. `messages`: the shares of messages by size, if they are known."""
    return MeasuredPlaces(
        np.array([collective]),
        np.array([algorithm]),
        np.array([float(ranks)]),
        np.array([float(nodes)]),
        np.array([float(nbytes)]),
        no_messages(1) if messages is None else messages[None],
    )


def apart(left: MeasuredPlaces, right: MeasuredPlaces) -> Apart:
    """How far apart the points are."""
    collective = left.collective[:, None] == right.collective
    return Apart(
        np.abs(np.log(left.nbytes)[:, None] - np.log(right.nbytes)),
        np.abs(np.log(left.ranks)[:, None] - np.log(right.ranks)),
        collective,
        collective & (left.algorithm[:, None] == right.algorithm),
        (left.ranks[:, None] == right.ranks) & (left.nodes[:, None] == right.nodes),
        message_likeness(left.messages, right.messages),
    )


def beyond(places: MeasuredPlaces, seen: MeasuredPlaces) -> Beyond:
    """How far `places` are outside `seen`, which has a point at least."""
    collective = places.collective[:, None] == seen.collective
    algorithm = collective & (places.algorithm[:, None] == seen.algorithm)
    same_job = (places.ranks[:, None] == seen.ranks) & (places.nodes[:, None] == seen.nodes)
    links = _same_links(places, seen)
    alike = links | ~links.any(axis=1, keepdims=True)
    doublings = np.maximum(
        _doublings(places.ranks, seen.ranks, alike), _doublings(places.nodes, seen.nodes, alike)
    )
    flags = [np.asarray(~column.any(axis=1)) for column in (links, algorithm, collective)]
    return Beyond(
        (~same_job.any(axis=1)).astype(np.float64),
        doublings**GROWTH,
        _doublings(places.nbytes, seen.nbytes, np.ones_like(alike)),
        *(column.astype(np.float64) for column in flags),
    )


def _same_links(places: MeasuredPlaces, seen: MeasuredPlaces) -> Flags:
    """Whether both or neither run over several nodes, shape (places, seen)."""
    return np.asarray((places.nodes > 1)[:, None] == (seen.nodes > 1))


def _doublings(values: Floats, seen: Floats, alike: Flags) -> Floats:
    """By how many doublings each of `values` is outside the range of the `alike` of `seen`."""
    most = np.where(alike, seen, 0).max(axis=1)
    least = np.where(alike, seen, np.inf).min(axis=1)
    return np.asarray(np.log2(np.maximum(1, values / most) * np.maximum(1, least / values)))


def reasons(place: MeasuredPlaces, seen: MeasuredPlaces) -> tuple[str, ...]:
    """In what the one point of `place` is outside what was `seen`, a line each.

    >>> from simulator.uncertainty.measured_places import place
    >>> seen = place("all_reduce", "ring", ranks=64, nodes=16, nbytes=1 << 20)
    >>> reasons(place("all_reduce", "ring", ranks=256, nodes=64, nbytes=1 << 20), seen)
    ('256 ranks: measured runs have at most 64',)
    """
    if not len(seen):
        return ("no run was measured",)
    outside = beyond(place, seen)
    lines: list[str] = []
    over = "over several nodes" if place.nodes[0] > 1 else "on one node"
    if outside.more_ranks[0]:
        lines += _other_job(place, seen, over)
    if outside.more_bytes[0]:
        lines.append(_outside(place.nbytes, seen.nbytes, format_bytes))
    if outside.network[0]:
        lines.append(f"no run {over} was measured")
    if outside.other_collective[0]:
        lines.append(f"{place.collective[0]} was not measured")
    elif outside.other_algorithm[0]:
        lines.append(f"algorithm {place.algorithm[0]} was not measured")
    return tuple(lines)


def _other_job(place: MeasuredPlaces, seen: MeasuredPlaces, over: str) -> Iterator[str]:
    """The ranks outside those that were seen on the same links, or else the nodes."""
    links = _same_links(place, seen)[0]
    whose = "measured runs"
    if links.any() and not links.all():
        seen, whose = seen.take(links), f"measured runs {over}"
    if not seen.ranks.min() <= place.ranks[0] <= seen.ranks.max():
        yield _outside(place.ranks, seen.ranks, lambda ranks: f"{ranks:.0f}", " ranks", whose)
    elif links.any():
        yield _outside(place.nodes, seen.nodes, lambda nodes: f"{nodes:.0f}", " nodes", whose)


def _outside(
    value: Floats,
    seen: Floats,
    show: Callable[[float], str],
    unit: str = "",
    whose: str = "measured runs",
) -> str:
    end, limit = ("at most", seen.max()) if value[0] > seen.max() else ("at least", seen.min())
    return f"{show(float(value[0]))}{unit}: {whose} have {end} {show(float(limit))}"


def no_messages(points: int) -> Floats:
    """The shares of points whose messages are not known, shape (points, OCTAVES)."""
    return np.zeros((points, OCTAVES))


def shares(sizes: Floats, counts: Floats, latency: float, crossed: float) -> Floats:
    """The shares of a run's time that its messages take by size, shape (OCTAVES,): at each power of
    2 bytes. A size between two powers is divided among both.

    There are `counts` messages of each of `sizes` bytes. `latency` is the share of the time that is
    α and g, and each message has as much of it. `crossed` is the share that bytes take on links.

    >>> shares(np.array([4.0, 12.0]), np.array([1, 1]), 0.2, 0.4)[:5].round(3).tolist()
    [0.0, 0.0, 0.2, 0.166, 0.234]
    """
    if not len(sizes):
        return np.zeros(OCTAVES)
    each = latency * counts / counts.sum()
    moved = counts * sizes
    if moved.any():
        each = each + crossed * moved / moved.sum()
    at = np.clip(np.log2(np.maximum(sizes, 1)), 0, OCTAVES - 1)
    low = np.minimum(at.astype(np.int64), OCTAVES - 2)
    above = at - low
    lower, upper = (
        np.bincount(place, weights, OCTAVES)
        for place, weights in ((low, each * (1 - above)), (low + 1, each * above))
    )
    return np.asarray(lower + upper)


def message_likeness(left: Floats, right: Floats) -> Floats:
    """How far the same messages make up two sets of points, shape (left, right). Points that are
    nothing but messages of one size have 1."""
    return np.asarray(left @ _KERNEL @ right.T)


def own_likeness(messages: Floats) -> Floats:
    """As :func:`message_likeness`, of each point with itself, shape (points,)."""
    return np.asarray(np.einsum("po,po->p", messages @ _KERNEL, messages))


_KERNEL = np.exp(
    -0.5 * (np.subtract.outer(np.arange(OCTAVES), np.arange(OCTAVES)) / LIKENESS_LENGTH) ** 2
)
