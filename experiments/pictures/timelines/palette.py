"""The colours of what ranks do: the same in every picture, and distinct for the colour-blind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

COLOURS = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "backward for inputs": "#44aa99",
    "backward for weights": "#e69f00",
    "optimizer": "#009e73",
    "update": "#117733",
    "all-reduce": "#e69f00",
    "reduce-scatter": "#b3671e",
    "all-gather": "#999933",
    "reduce": "#c98b5a",
    "broadcast": "#f0e442",
    "push": "#d55e00",
    "pull": "#cc79a7",
    "scatter": "#ddcc77",
    "replicate": "#882255",
    "gather": "#661100",
    "sum": "#332288",
    "launch": "#8c7cc9",
    "prepare": "#b9a6e0",
    "barrier": "#8c8c8c",
    "wait": "#bbbbbb",
    "restart": "#a51c30",
    "copy": "#aa4499",
    "hooks": "#cc6677",
}
"""The colours of the usual kinds, after Okabe and Ito and after Tol."""
SPARE = ("#44aa99", "#88ccee", "#6699cc", "#aa4466", "#4477aa", "#a6761d")
"""The colours of other kinds."""
DARK = 0.38
"""The share of black in a colour of later stages."""
LATER = ", later stages"
"""The ending of kinds of a pipeline that are drawn darker."""


class Fill(NamedTuple):
    """How an area is filled, to tell it apart without colours."""

    colour: str
    hatch: str
    ink: str
    """The colour of the hatch."""


FILLS = {
    "transfer": Fill("#fdebc8", "---", "#c98500"),
    "contention": Fill("#f7c8b4", "xxx", "#d55e00"),
    "slower peer": Fill("#ddd6f0", "\\" * 3, "#7a68b8"),
    "drain": Fill("#ececec", "", "#999999"),
    "fill": Fill("#d6ebe2", "...", "#5b9c84"),
    "launch": Fill("#d6e6f5", "|||", "#6a98c8"),
}
"""The fill of bubbles by cause: pale, so that they are not taken for work."""
HIDDEN = "////"
"""The hatch of hidden communication."""


def mixed(colour: str, share: float, ground: str = "white") -> str:
    """A colour mixed with a share of the ground."""
    parts = zip(to_rgb(colour), to_rgb(ground), strict=True)
    red, green, blue = ((1 - share) * part + share * under for part, under in parts)
    return to_hex((red, green, blue))


def pale(colour: str) -> str:
    """The colour of hidden communication: mostly white."""
    return mixed(colour, 0.7)


def colours(kinds: Iterable[str]) -> dict[str, str]:
    """A colour for each kind, the usual kinds first.

    A kind has its usual colour, or that of its first word if no other begins with it. The colour
    of any other kind follows from its name; many of them get a gradient instead.
    """
    every = list(dict.fromkeys(kinds))
    names = list(dict.fromkeys(name.removesuffix(LATER) for name in every))
    first_word = {name: name.partition(" ")[0] for name in names}
    times = Counter(first_word.values())
    chosen = {
        name: colour
        for word, colour in COLOURS.items()
        for name in names
        if name == word or (first_word[name] == word and times[word] == 1)
    }
    unnamed = [name for name in names if name not in chosen]
    if len(unnamed) > len(SPARE):
        shades = colormaps["turbo"](np.linspace(0.05, 0.95, len(unnamed)))
        return chosen | dict(zip(unnamed, map(to_hex, shades), strict=True))
    for name in sorted(unnamed):
        first = crc32(name.encode()) % len(SPARE)
        turn = SPARE[first:] + SPARE[:first]
        chosen[name] = next(colour for colour in turn if colour not in chosen.values())
    for name in every:
        if name.endswith(LATER):
            chosen[name] = mixed(chosen[name.removesuffix(LATER)], DARK, "black")
    return {name: colour for name, colour in chosen.items() if name in every}


def ink_on(colour: str) -> str:
    """The colour of text that is easiest to read on this colour: white or black."""
    return "white" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) < 0.5 else "black"
