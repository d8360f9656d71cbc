"""The colours of timelines: the colour-blind tell them apart, and hatches help without colours."""

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb

from experiments.pictures.timelines.palette import COLOURS, FILLS, SPARE, colours
from grouped_cases import each_case
from simulator.analysis.bubbles import BUBBLE_CAUSES


def test_every_cause_has_a_fill_and_a_hatch_of_its_own() -> None:
    assert {*FILLS} == {*BUBBLE_CAUSES}
    assert len({fill.hatch[:1] for fill in FILLS.values()}) == len(FILLS)


def test_other_kinds_have_colours_of_their_own() -> None:
    assert colours(["forward", "shuffle"])["shuffle"] == colours(["shuffle", "zip"])["shuffle"]
    colour_of = colours(["forward", *(f"kind{k}" for k in range(len(SPARE)))])
    assert len(set(colour_of.values())) == len(colour_of)
    assert len(colours(f"kind{k}" for k in range(20))) == 20


DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
"""Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009: what is seen, in linear RGB."""
TOGETHER = [
    ("forward", "backward", "optimizer", "all-reduce", "broadcast", "restart"),
    ("forward", "backward", "push", "pull", "sum", "update", "wait"),
    ("scatter", "replicate", "forward", "gather", "backward", "reduce", "optimizer"),
]


def seen(colour: str, deficiency: str) -> np.ndarray:
    """CIE L*a*b* of a colour."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(DEFICIENCIES[deficiency] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ linear / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@each_case("deficiency", DEFICIENCIES)
@each_case("together", TOGETHER)
def test_the_colour_blind_tell_apart_what_is_drawn_together(
    deficiency: str, together: tuple[str, ...]
) -> None:
    for kind, neighbour in combinations(together, 2):
        distance = np.linalg.norm(
            seen(COLOURS[kind], deficiency) - seen(COLOURS[neighbour], deficiency)
        )
        assert distance > 12, (kind, neighbour, distance)
