"""A map of winners: its cells, their words, and its legend."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.pictures.cell_maps import winner_map_drawing
from experiments.simulations.recommendation import Advice
from experiments.simulations.winners import Winner

ADVICE = Advice(
    *(2.0**10, "ring:segments=4", "", 1, 64.0, 1e-5, 1e-5, 1.0, "latency", "ring", 1e-5, 1.0, "")
)


def winners(names: list[str], ranks: int = 4, margin: float | None = 1.2) -> list[Winner]:
    """A row of a map: a name at each size."""
    return [
        Winner(ranks, replace(ADVICE, size_B=2.0 ** (10 + k)), name, "tree", 1e-5, margin)
        for k, name in enumerate(names)
    ]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def legend(figure: Figure) -> list[str]:
    (beside,) = figure.legends
    return [text.get_text() for text in beside.get_texts()]


def colours(figure: Figure) -> list[tuple[float, ...]]:
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return [to_rgb(cell.get_facecolor()) for cell in cells]


def test_a_cell_has_winner_and_margin() -> None:
    rows = [*winners(["naive", "ring"], 4), *winners(["naive", "naive"], 8, margin=1.01)]
    figure = winner_map_drawing(rows, "all_reduce on star")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1KiB", "2KiB"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["4", "8"]
    assert words(figure) == ["naive\n1.20x", "ring\n1.20x", "naive\n1.01x", "naive\n1.01x"]
    first, second, close, same = colours(figure)
    assert first != second
    assert first != close == same
    assert legend(figure)[:2] == ["naive", "ring"]
    assert legend(figure)[-1].startswith("pale: the second")


def test_a_question_mark_says_that_the_second_may_be_as_fast() -> None:
    (sure, unsure) = winners(["naive", "ring"])
    unsure = replace(unsure, advice=replace(unsure.advice, rival="tree"))
    figure = winner_map_drawing([sure, unsure], "all_reduce on star")
    assert words(figure) == ["naive\n1.20x", "ring\n1.20x?"]
    assert legend(figure)[-1].startswith("?: the second may be")
    assert not legend(winner_map_drawing([sure], "all_reduce on star"))[-1].startswith("?")


def test_many_sizes_have_words_for_each_stretch() -> None:
    figure = winner_map_drawing(winners(["naive"] * 12 + ["ring"] * 8), "title")
    assert words(figure) == ["naive\n1.20x or more", "ring\n1.20x or more"]


def test_many_numbers_of_ranks_have_the_legend_alone() -> None:
    rows = [each for ranks in range(2, 22) for each in winners(["ring"], ranks)]
    assert words(winner_map_drawing(rows, "title")) == []


def test_more_algorithms_than_colours_have_hatches() -> None:
    figure = winner_map_drawing(winners([f"a{k}" for k in range(11)], margin=None), "title")
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len({(cell.get_facecolor(), cell.get_hatch()) for cell in cells}) == 11
    assert words(figure)[0] == "a0"
