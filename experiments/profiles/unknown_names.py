"""Names in a profile that mean nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from simulator.collectives import algorithms
from topologies.readers.mistakes import Mistake, unknown

if TYPE_CHECKING:
    from experiments.profiles.profile_document import Calibrated


def unknown_names(profile: Calibrated) -> Iterator[Mistake]:
    """The protocols, algorithms and kinds of links that a profile names, and that are none."""
    kinds = list(dict.fromkeys(kind for links in profile.protocols.values() for kind in links))
    for protocol, factors in profile.factors.items():
        yield from _among("protocol", ("factors", protocol), profile.protocols)
        for algorithm, by_kind in factors.items():
            yield from _among("algorithm", ("factors", protocol, algorithm), algorithms())
            for kind in by_kind:
                yield from _among("kind of link", ("factors", protocol, algorithm, kind), kinds)
    for protocol in profile.longest:
        yield from _among("protocol", ("longest", protocol), profile.protocols)
    for algorithm, by_kind in profile.slower.items():
        yield from _among("algorithm", ("slower", algorithm), algorithms())
        for kind in by_kind:
            yield from _among("kind of link", ("slower", algorithm, kind), kinds)
    for algorithm, channels in profile.channels.items():
        yield from _among("kind of link", ("channels", algorithm, channels.kind), kinds)
    for kind, crowd in profile.crowding.items():
        yield from _among("kind of link", ("crowding", kind), kinds)
        if crowd.protocol and crowd.protocol not in profile.protocols:
            name = unknown("protocol", crowd.protocol, profile.protocols)
            yield ("crowding", kind, "protocol"), name
        counts = [correction.nodes for correction in crowd.apart]
        for number in sorted({count for count in counts if counts.count(count) > 1}):
            yield ("crowding", kind, "apart"), f"{number} nodes are in it twice: once is right"
    for number, entry in enumerate(profile.ineffective):
        for place, algorithm in enumerate(entry.ran):
            if algorithm.partition(":")[0] not in algorithms():
                yield (
                    ("ineffective", number, "ran", place),
                    unknown("algorithm", algorithm, algorithms()),
                )
    for key, named in (
        ("scratch", profile.scratch),
        ("joined", profile.joined),
        ("launches", profile.launches),
        ("pieces", profile.pieces),
        ("channels", profile.channels),
    ):
        for algorithm in named:
            yield from _among("algorithm", (key, algorithm), algorithms())


def _among(noun: str, place: tuple[str, ...], names: Collection[str]) -> Iterator[Mistake]:
    if place[-1] not in names:
        yield place, unknown(noun, place[-1], names)
