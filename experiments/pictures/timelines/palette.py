"""The colours of what ranks do: the same in every picture, and told apart by the colour-blind."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
from matplotlib.colors import to_rgb

COLOURS = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "optimizer": "#009e73",
    "update": "#117733",
    "all-reduce": "#e69f00",
    "broadcast": "#f0e442",
    "push": "#d55e00",
    "pull": "#cc79a7",
    "scatter": "#ddcc77",
    "replicate": "#882255",
    "gather": "#661100",
    "all-gather": "#999933",
    "reduce-scatter": "#b3671e",
    "reduce": "#c98b5a",
    "sum": "#332288",
    "launch": "#8c7cc9",
    "prepare": "#b9a6e0",
    "barrier": "#8c8c8c",
    "wait": "#bbbbbb",
    "restart": "#a51c30",
}
"""Of the usual kinds, the first word of a phase, after Okabe and Ito and after Tol; others get one
of `SPARE`."""
SPARE = ("#44aa99", "#aa4499", "#88ccee", "#cc6677", "#6699cc", "#aa4466", "#4477aa", "#a6761d")


def colours(kinds: Iterable[str]) -> dict[str, str]:
    """The colour of every kind: the usual ones have theirs, others one that follows from the
    name."""
    given = set(kinds)
    found = {kind: COLOURS[kind] for kind in COLOURS if kind in given}
    for kind in sorted(given - set(found)):
        first = crc32(kind.encode()) % len(SPARE)
        turn = SPARE[first:] + SPARE[:first]
        found[kind] = next((colour for colour in turn if colour not in found.values()), turn[0])
    return found


def is_dark(colour: str) -> bool:
    """Whether white is read better on it than black."""
    return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114))) < 0.5
