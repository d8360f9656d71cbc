"""Which of the measured curves take part."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.measurements import Curve, setups
from topologies.errors import InputError


def chosen_curves(curves: Sequence[Curve], only: str | None, forced: bool) -> list[Curve]:
    """Those with all words of `only` in their file's name, and with a forced algorithm if `forced`.
    Raises InputError if none has such a name, or if there is no word."""
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
