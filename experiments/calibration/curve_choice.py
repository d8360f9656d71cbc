"""Selects measured curves by file name and by forced algorithm."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.measurements import Curve, setups
from topologies.errors import InputError


def chosen_curves(curves: Sequence[Curve], only: str | None, forced: bool) -> list[Curve]:
    """The curves whose file names contain all words of `only` and, if `forced`, whose algorithm was
    forced.

    Raises InputError if no curve is left, or `only` has no word.
    """
    named = list(curves)
    if only is not None:
        if not only.strip(" ,"):
            raise InputError(f"--only {only!r}: expected words of files' names, like cpu")
        named = setups.of_setup(curves, only)
        if not named:
            words = sorted({word for curve in curves for word in setups.words(curve)})
            raise InputError(
                f"--only {only}: no file's name has that as a word: there are "
                f"{', '.join(words)[:200]}"
            )
    return [curve for curve in named if curve.algorithm or not forced]
