"""Slices of Chrome traces: complete events as columns, and their times."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.tracks import Integers
from topologies.topology import Floats

Nanoseconds = npt.NDArray[np.int64]


class Slices(NamedTuple):
    """Complete events, one in each row."""

    rank: Integers
    track: Integers
    """The track of the rank, an index into the names of the tracks."""
    start: Nanoseconds
    end: Nanoseconds
    about: list[str]
    """Name, category and args, as JSON without its braces."""


def slices_of(
    rank: Integers, track: Integers | int, start: Floats, end: Floats, about: list[str]
) -> Slices:
    """Slices from times in seconds."""
    tracks = np.broadcast_to(track, len(rank))
    return Slices(rank, tracks, nanoseconds(start), nanoseconds(end), about)


def described(name: str, category: str, **args: object) -> str:
    """Name, category and args of a slice."""
    return f'"name": {json.dumps(name)}, "cat": {json.dumps(category)}, "args": {json.dumps(args)}'


def microseconds(nanoseconds: Nanoseconds) -> Floats:
    """The smallest doubles that Perfetto reads as these nanoseconds.

    Perfetto multiplies by a thousand and truncates. With a smaller double a slice would begin
    before the end of the previous slice, and Perfetto would drop it.
    """
    nearest = nanoseconds / 1000
    return np.where(np.floor(nearest * 1000) < nanoseconds, np.nextafter(nearest, np.inf), nearest)


def nanoseconds(seconds: Floats) -> Nanoseconds:
    """Seconds as whole nanoseconds."""
    return np.rint(seconds * 1e9).astype(np.int64)


def some(slices: Slices, rows: Integers) -> Slices:
    """Some of the slices."""
    about = [slices.about[row] for row in rows.tolist()]
    start, end = slices.start[rows], slices.end[rows]
    return Slices(slices.rank[rows], slices.track[rows], start, end, about)


def joined(parts: list[Slices]) -> Slices:
    rank, track, start, end = (
        np.concatenate(column) for column in list(zip(*parts, strict=True))[:4]
    )
    return Slices(rank, track, start, end, [about for part in parts for about in part.about])
