"""Parts of a profile's document, and how sure it is: the rules of intervals, residuals of measured
points, and the profile's numbers if its parameters move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from simulator.effects.parameter_units import Bytes, Count, Word
from simulator.profile import Uncertainty
from simulator.uncertainty.measured_places import OCTAVES, MeasuredPlaces, no_messages
from simulator.uncertainty.residuals import IntervalRules, Residuals, Share
from topologies.readers.mistakes import Mistake
from topologies.topology import Floats


class DocumentPart(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


def _changed(part: NamedTuple) -> dict[str, Any]:
    values = part._asdict().items()
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values
        if value != part._field_defaults.get(name)
    }


def _mapping(value: object) -> object:
    """The value. A list would fill the fields of a named tuple in their order."""
    if isinstance(value, list):
        raise ValueError("a list is not a mapping of keys to values")
    return value


Keys = BeforeValidator(_mapping)
Changed = PlainSerializer(_changed)
"""Fields with their defaults are not written."""
Whole = PlainSerializer(lambda part: part._asdict())
"""All fields are written, so that a later version may have other defaults."""


MOST_POINTS, MOST_VARIANTS = 2000, 256
DIGITS = 6
SHARE_DIGITS = 4


Octave = Annotated[int, Ge(0), Lt(OCTAVES)]
Nodes = Annotated[float, Ge(1), Le(1e9)]
"""A mean number of nodes, or of ranks of a node."""


class SeenPoint(NamedTuple):
    """A measured point."""

    collective: Word
    algorithm: Word
    """The algorithm that ran."""
    ranks: Count
    nodes: Nodes
    size: Bytes
    """V in bytes."""
    residual: Annotated[float, Ge(-100), Le(100)]
    """log(measured / model)."""
    messages: Annotated[dict[Octave, Share], Field(max_length=OCTAVES)] | None = None
    """The share of the time that messages take, by the power of 2 that is their size in bytes. None
    if it is not known."""


def _row(point: SeenPoint) -> list[Any]:
    return [value for value in point if value is not None]


Row = Annotated[SeenPoint, PlainSerializer(_row)]


class UncertaintyPart(DocumentPart):
    """How sure the profile is."""

    rules: Annotated[IntervalRules, Keys, Whole]
    seen: list[Row] = Field([], max_length=MOST_POINTS)
    """The measured points, a list each."""
    moved: dict[Word, Annotated[list[float], Field(max_length=MOST_VARIANTS)]] = Field(
        {}, max_length=MOST_POINTS
    )
    """The numbers that change if the parameters move by one standard deviation, in each of several
    directions, by their place: "protocols/LL/node/latency"."""

    def mistakes(self, content: Mapping[str, Any]) -> Iterator[Mistake]:
        """Messages that take more than the whole time, places that are none in a profile's content,
        and lists of another length than the first."""
        for number, point in enumerate(self.seen):
            if sum((point.messages or {}).values()) > 1 + OCTAVES * 10**-SHARE_DIGITS:
                yield ("uncertainty", "seen", number), "shares of messages are 1 at most together"
        known, length = dict(numbers(content)), None
        for where, values in self.moved.items():
            length = len(values) if length is None else length
            if where not in known:
                yield ("uncertainty", "moved", where), "the profile has no number there"
            elif len(values) != length:
                message = f"{len(values)} values, and the first has {length}: as many are needed"
                yield ("uncertainty", "moved", where), message

    def variants(self, content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The contents of the profile with its parameters moved."""
        for values in zip(*self.moved.values(), strict=True):
            moved = deepcopy(dict(content))
            for where, value in zip(self.moved, values, strict=True):
                *path, last = where.split("/")
                part: Any = moved
                for key in path:
                    part = part[int(key) if isinstance(part, list) else key]
                part[last] = value
            yield moved

    def residuals(self) -> Residuals:
        """The residuals of the measured points."""
        seen = self.seen
        ranks, nodes, size, residual = (
            np.array([float(getattr(point, name)) for point in seen])
            for name in ("ranks", "nodes", "size", "residual")
        )
        collective = np.array([point.collective for point in seen], dtype=np.str_)
        algorithm = np.array([point.algorithm for point in seen], dtype=np.str_)
        messages = no_messages(len(seen))
        for row, point in zip(messages, seen, strict=True):
            for octave, share in (point.messages or {}).items():
                row[octave] = share
        where = MeasuredPlaces(collective, algorithm, ranks, nodes, size, messages)
        return Residuals(self.rules, where, residual)


def numbers(content: object, place: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """The numbers that a simulation takes from a profile's content, with their places."""
    if isinstance(content, Mapping):
        entries = [(key, value) for key, value in content.items() if place or key not in ABOUT]
    elif isinstance(content, list):
        entries = [(str(key), value) for key, value in enumerate(content)]
    else:
        entries = []
        if isinstance(content, float):
            yield "/".join(place), content
    for key, value in entries:
        yield from numbers(value, (*place, str(key)))


def _by_octave(messages: Floats) -> dict[int, float] | None:
    """The shares of a point that are more than nothing, rounded. None if there are none."""
    rounded = enumerate(messages.round(SHARE_DIGITS).tolist())
    return {octave: share for octave, share in rounded if share} or None


ABOUT = ("estimates", "errors", "uncertainty", "sources", "made", "ineffective")
"""The parts of a profile's content that no simulation takes."""


def part_of(
    uncertainty: Uncertainty, content: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The part of a document, from the content of the profile and of its variants."""
    moved = [dict(numbers(variant)) for variant in variants]
    residuals = uncertainty.residuals
    seen, values = residuals.seen, residuals.values.round(DIGITS)
    columns = (seen.collective, seen.algorithm, seen.ranks, seen.nodes, seen.nbytes, values)
    rows = zip(
        *(column.tolist() for column in columns), map(_by_octave, seen.messages), strict=True
    )
    return {
        "rules": residuals.rules._asdict(),
        "seen": [SeenPoint(*row) for row in rows],
        "moved": {
            where: [float(f"{each[where]:.{DIGITS}g}") for each in moved]
            for where, value in numbers(content)
            if any(each[where] != value for each in moved)
        },
    }
